/**
 * What a hub knows, as a list of small records: each change adds one, and all of them together make the state again. The journal is
 * such a list on disk. Descriptors are not in it: whoever holds the memory brings them back.
 */
import type { ChannelRole } from "../wire/channel-content.js";
import type { Descriptor } from "../wire/descriptor.js";
import type { Lifetime, RequestOf, Sharing } from "../wire/messages.js";

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

export type SessionThread = NonNullable<RequestOf<"hello">["thread"]> & { readonly isSeen: boolean };

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

/**
 * Many things that are there, in few records: what a journal that is written anew begins with.
 * WHY: a hub that starts reads them in half the time. WHY only some leases each: one damaged line loses all that is in it.
 */
export type CompactRecord =
  | { readonly t: "kept"; readonly object: ObjectRecord; readonly published: boolean; readonly named: boolean }
  | { readonly t: "leases"; readonly of: readonly PackedLease[] };

type PackedLease = readonly [
  id: number,
  object: number,
  session: number,
  kind: LeaseRecord["kind"],
  role?: ChannelRole,
  place?: number | null,
];

export type StoredRecord = HubRecord | CompactRecord;

const LEASES_PER_RECORD = 16;

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
export function replay(records: Iterable<StoredRecord>): HubState {
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

  take(record: StoredRecord): void {
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

function apply(state: HubState, record: StoredRecord): void {
  switch (record.t) {
    case "session":
      seen(state, record.id);
      state.sessions.set(record.id, record);
      break;
    case "object":
      seen(state, record.id);
      state.objects.set(record.id, { record, published: false, named: true });
      break;
    case "kept": {
      const { object, published, named } = record;
      seen(state, object.id);
      state.objects.set(object.id, { record: object, published, named });
      break;
    }
    case "lease":
      applyLease(state, record);
      break;
    case "leases":
      for (const packed of record.of) applyLease(state, unpack(packed));
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
      seen(state, record.id);
      break;
  }
}

function seen(state: HubState, id: number): void {
  if (id > state.lastId) state.lastId = id;
}

function applyLease(state: HubState, lease: LeaseRecord): void {
  seen(state, lease.id);
  if (state.objects.has(lease.object) && state.sessions.has(lease.session)) state.leases.set(lease.id, lease);
}

function unpack([id, object, session, kind, role, place]: PackedLease): LeaseRecord {
  const lease = { t: "lease", id, object, session, kind } as const;
  return role === undefined ? lease : { ...lease, role, place: place ?? null };
}

function pack({ id, object, session, kind, role, place }: LeaseRecord): PackedLease {
  return role === undefined ? [id, object, session, kind] : [id, object, session, kind, role, place ?? null];
}

function change(state: HubState, id: number, apply: (object: ObjectState) => void): void {
  const object = state.objects.get(id);
  if (object !== undefined) apply(object);
}

/** The shortest list that makes this state. */
export function recordsOf({ lastId, sessions, objects, leases }: HubState): IterableIterator<StoredRecord> {
  return compactRecords(lastId, sessions.values(), objects.values(), leases.values());
}

/** The same for things that are looked up while the list is read. WHY leases last: one counts after its session and its object. */
export function* compactRecords(
  lastId: number,
  sessions: Iterable<SessionRecord>,
  objects: Iterable<ObjectState>,
  leases: Iterable<LeaseRecord>,
): IterableIterator<StoredRecord> {
  if (lastId > 0) yield { t: "last-id", id: lastId };
  yield* sessions;
  for (const { record, published, named } of objects) yield { t: "kept", object: record, published, named };
  let of: PackedLease[] = [];
  for (const lease of leases) {
    of.push(pack(lease));
    if (of.length < LEASES_PER_RECORD) continue;
    yield { t: "leases", of };
    of = [];
  }
  if (of.length > 0) yield { t: "leases", of };
}
