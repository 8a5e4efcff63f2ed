/** What one hub leaves to the next: in full where it hands over, and after a crash what its journal says. */
import type { RequestOf } from "../wire/messages.js";
import type { HubState, SessionRecord } from "./hub-records.js";
import type { ConnectionId, Peer } from "./ports.js";
import type { ObjectMemory } from "./shared-object.js";

/** A connection of an earlier hub: alive where it was handed over, or only the process to watch where it hung up. */
export interface EarlierConnection {
  readonly id: ConnectionId;
  readonly peer: Peer;
  readonly attached: boolean;
  readonly session: SessionRecord | null;
  /** Leases that a resumed session has not spoken of yet. */
  readonly unrestored: readonly number[] | null;
  /** In the order in which they came. WHY not among all clients: it would only matter where a quota is nearly used up. */
  readonly waiting: readonly RequestOf<"open">[];
}

/** What an earlier hub knew. */
export interface Inheritance<Fd> {
  readonly state: HubState;
  readonly connections: readonly EarlierConnection[];
  /** Of objects, by their numbers; the core's from here on. */
  readonly memory: ReadonlyMap<number, ObjectMemory<Fd>>;
}
