/**
 * What a hub knows, as a list of small records: each change adds one, and all of them together make the state again. The journal is
 * such a list on disk. Descriptors are not in it: whoever holds the memory brings them back.
 */
import type { ChannelRole } from "../wire/channel-content.js";
import type { Descriptor } from "../wire/descriptor.js";
import type { Lifetime, Sharing, Thread } from "../wire/messages.js";

export interface SessionRecord {
  readonly t: "session";
  readonly id: number;
  readonly pid: number;
  readonly pidNamespace: number;
  readonly pidfdInode: string | null;
  readonly startTicks: number | null;
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
  readonly program: string;
  /** The worker thread that the session ends with, and whether the hub could see that thread. */
  readonly thread?: SessionThread;
}

export type SessionThread = Thread & { readonly isSeen: boolean };

export interface ObjectRecord {
  readonly t: "object";
  readonly id: number;
  readonly name: string;
  readonly lifetime: Lifetime;
  readonly sharing: Sharing;
  readonly descriptor: Descriptor;
  readonly createdAtMs: number;
  readonly owner: { readonly pid: number; readonly uid: number; readonly gid: number };
  /** Which files the host memory and the index are, so that no others can be brought in their place; null for memory of a GPU. */
  readonly inodes: readonly (string | null)[];
  /** Whether host memory came in a way that lets others write to it. */
  readonly writable: boolean;
}

export interface LeaseRecord {
  readonly t: "lease";
  readonly id: number;
  readonly object: number;
  readonly session: number;
  readonly kind: "owner" | "read" | "read-write";
  /** Of a channel. */
  readonly role?: ChannelRole;
  readonly place?: number | null;
}

export type HubRecord =
  | SessionRecord
  | ObjectRecord
  | LeaseRecord
  | { readonly t: "published"; readonly object: number }
  /** Its name was taken away; it lives for its leases. */
  | { readonly t: "unnamed"; readonly object: number }
  | { readonly t: "object-ended"; readonly object: number }
  | { readonly t: "released"; readonly lease: number }
  | { readonly t: "session-ended"; readonly session: number }
  /** Every number up to this one may have been given to somebody. */
  | { readonly t: "last-id"; readonly id: number };

export interface ObjectState {
  readonly record: ObjectRecord;
  published: boolean;
  named: boolean;
}

export interface HubState {
  readonly sessions: Map<number, SessionRecord>;
  readonly objects: Map<number, ObjectState>;
  readonly leases: Map<number, LeaseRecord>;
  lastId: number;
}

/** The state that these records make. */
export function replay(records: Iterable<HubRecord>): HubState {
  const replay = new Replay();
  for (const record of records) replay.take(record);
  return replay.finish();
}

/**
 * The state that records make, taken one by one. What ends an unknown thing changes nothing: the record of its beginning may have
 * been left out because it had ended. Records may also be missing because they are damaged.
 */
export class Replay {
  readonly #state: HubState = { sessions: new Map(), objects: new Map(), leases: new Map(), lastId: 0 };

  take(record: HubRecord): void {
    apply(this.#state, record);
  }

  finish(): HubState {
    const { objects, sessions, leases } = this.#state;
    // WHY once, at the end: to look for its leases at each end would take a long journal for ever, and no number comes again.
    for (const { id, object, session } of leases.values()) {
      if (!objects.has(object) || !sessions.has(session)) leases.delete(id);
    }
    const byName = new Map<string, ObjectState>();
    for (const object of objects.values()) {
      if (!object.named) continue;
      const { name } = object.record;
      const other = byName.get(name);
      // WHY: the record that took the name from the earlier one is missing, since the later one could be created.
      if (other !== undefined) other.named = false;
      byName.set(name, object);
    }
    return this.#state;
  }
}

function apply(state: HubState, record: HubRecord): void {
  if ("id" in record) state.lastId = Math.max(state.lastId, record.id);
  switch (record.t) {
    case "session":
      state.sessions.set(record.id, record);
      break;
    case "object":
      state.objects.set(record.id, { record, published: false, named: true });
      break;
    case "lease":
      if (state.objects.has(record.object) && state.sessions.has(record.session)) state.leases.set(record.id, record);
      break;
    case "published":
      change(state, record.object, (object) => {
        object.published = true;
      });
      break;
    case "unnamed":
      change(state, record.object, (object) => {
        object.named = false;
      });
      break;
    case "released":
      state.leases.delete(record.lease);
      break;
    case "object-ended":
      state.objects.delete(record.object);
      break;
    case "session-ended":
      state.sessions.delete(record.session);
      break;
    case "last-id":
      break;
  }
}

function change(state: HubState, id: number, apply: (object: ObjectState) => void): void {
  const object = state.objects.get(id);
  if (object !== undefined) apply(object);
}

/** The shortest list that makes this state. */
export function* recordsOf(state: HubState): IterableIterator<HubRecord> {
  if (state.lastId > 0) yield { t: "last-id", id: state.lastId };
  yield* state.sessions.values();
  for (const { record, published, named } of state.objects.values()) {
    yield record;
    if (published) yield { t: "published", object: record.id };
    if (!named) yield { t: "unnamed", object: record.id };
  }
  yield* state.leases.values();
}
