/** What the model knows of connections, sessions, leases, waits and objects. */
import type { ConnectionId, Peer } from "../../../src/hub/core/ports.js";
import type { ChannelRole } from "../../../src/wire/channel-content.js";
import type { Descriptor } from "../../../src/wire/descriptor.js";
import type { Replace, RequestOf, Sharing } from "../../../src/wire/messages.js";
import type { Tally, Uses } from "./tally.js";
import type { File, Held } from "./world.js";

export interface ModelConnection {
  id: ConnectionId;
  readonly peer: Peer;
  attached: boolean;
  /** False if it was admitted over the limit to continue a session: then it does not count. */
  counted: boolean;
  session: ModelSession | undefined;
}

export interface ModelSession {
  readonly id: number;
  readonly peer: Peer;
  readonly tally: Tally;
  readonly leases: Map<number, ModelLease>;
  readonly waits: Map<number, ModelWait>;
  connection: ModelConnection;
  unrestored: Set<number> | undefined;
  recorded: boolean;
  disconnected: boolean;
  /** What a client knows that has listed everything and asked for the changes since. */
  view?: ModelView | undefined;
}

export interface ModelView {
  next: number;
  /** By the number of each visible object: its count of leases, and other facts that change. */
  readonly objects: Map<number, readonly unknown[]>;
}

export interface ModelLease {
  readonly id: number;
  readonly kind: "owner" | "read" | "read-write";
  readonly role?: ChannelRole | undefined;
  readonly place?: number | undefined;
  /** Whether the hub keeps the files that this reader brought of a channel without memory. */
  hasParts: boolean;
  readonly session: ModelSession;
  readonly object: ModelObject;
}

export interface ModelWait {
  readonly session: ModelSession;
  readonly request: RequestOf<"open">;
}

export interface ModelObject {
  readonly id: number;
  readonly name: string;
  readonly pinned: boolean;
  readonly sharing: Sharing;
  readonly descriptor: Descriptor;
  readonly owner: { readonly uid: number; readonly gid: number };
  /** The files of its creation. They identify its memory. */
  readonly files: readonly File[];
  /** Whether its creator could write to it; false unless it is host memory. */
  readonly writable: boolean;
  readonly uses: Uses;
  readonly leases: Map<number, ModelLease>;
  memory: readonly Held[] | undefined;
  /** The user who pays for it. */
  payer: number;
  ownerLease: ModelLease | undefined;
  /** What it may take its name from when it is published. */
  readonly replace?: Replace | undefined;
  /** Of an offer: who may be workers of its service, beside root and the hub's user. */
  serviceUsers?: readonly number[] | undefined;
  hadReader?: boolean;
  published: boolean;
  named: boolean;
}
