/** What one hub leaves to the next: what its journal says, and what a service manager kept of the memory. */
import type { HubState, SessionRecord } from "./hub-records.js";
import type { ConnectionId, Peer } from "./ports.js";
import type { ObjectMemory } from "./shared-object.js";

/** A session of an earlier hub, as a connection that hung up: its process may come back with what it holds, or has ended. */
export interface EarlierConnection {
  readonly id: ConnectionId;
  readonly peer: Peer;
  readonly session: SessionRecord;
}

/** What an earlier hub knew. */
export interface Inheritance<Fd> {
  readonly state: HubState;
  readonly connections: readonly EarlierConnection[];
  /** Of objects, by their numbers; the core's from here on. */
  readonly memory: ReadonlyMap<number, ObjectMemory<Fd>>;
}
