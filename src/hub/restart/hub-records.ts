/**
 * The hub's state as a list of small records. Each change adds one, and all of them together make
 * the state again. The journal is such a list on disk. It has no descriptors: the holders of memory
 * bring it back.
 */
import type { ChannelRole } from "../../wire/channel-content.js";
import type { Descriptor } from "../../wire/descriptor.js";
import type { Lifetime, Replace, RequestOf, Sharing } from "../../wire/messages.js";

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
  /** The worker thread that the session ends with, and whether the hub could see it. */
  readonly thread?: SessionThread;
}

export type SessionThread = NonNullable<RequestOf<"hello">["thread"]> & {
  readonly isSeen: boolean;
};

export interface ObjectRecord {
  readonly t: "object";
  readonly id: number;
  readonly name: string;
  readonly lifetime: Lifetime;
  readonly sharing: Sharing;
  readonly descriptor: Descriptor;
  readonly createdAtMs: number;
  readonly owner: { readonly pid: number; readonly uid: number; readonly gid: number };
  /**
   * The inodes of host memory and index, so that nobody can bring other files instead. Null for GPU
   * memory.
   */
  readonly inodes: readonly (string | null)[];
  /** Whether the creator's descriptor of host memory lets others write. */
  readonly writable: boolean;
  /** The object gets its name when it is published, from an object that this allows. */
  readonly replace?: Replace | undefined;
  /** For an offer: the users who may be workers of its service. */
  readonly serviceUsers?: readonly number[] | undefined;
}

export interface LeaseRecord {
  readonly t: "lease";
  readonly id: number;
  readonly object: number;
  readonly session: number;
  readonly kind: "owner" | "read" | "read-write";
  /** When it was granted, in Unix milliseconds. */
  readonly sinceMs: number;
  readonly role?: ChannelRole;
  readonly place?: number | null;
}

export type HubRecord =
  | SessionRecord
  | ObjectRecord
  | LeaseRecord
  /**
   * With the object that lost its name to this one in the same step, and what then holds of the
   * users of its service.
   */
  | {
      readonly t: "published";
      readonly object: number;
      readonly replaced?: number;
      readonly serviceUsers?: readonly number[];
    }
  /** Its name was removed. It lives on for its leases. */
  | { readonly t: "unnamed"; readonly object: number }
  | { readonly t: "object-ended"; readonly object: number }
  | { readonly t: "released"; readonly lease: number }
  | { readonly t: "session-ended"; readonly session: number }
  /** All numbers up to this one may be in use. */
  | { readonly t: "last-id"; readonly id: number };

/**
 * Many things in few records: the beginning of a rewritten journal. A hub reads them in half the
 * time. WHY only some leases in each: a damaged line loses everything in it.
 */
export type CompactRecord =
  | {
      readonly t: "kept";
      readonly object: ObjectRecord;
      readonly published: boolean;
      readonly named: boolean;
    }
  | { readonly t: "leases"; readonly of: readonly PackedLease[] };

type PackedLease = readonly [
  id: number,
  object: number,
  session: number,
  kind: LeaseRecord["kind"],
  sinceMs: number,
  role?: ChannelRole,
  place?: number | null,
];

export type StoredRecord = HubRecord | CompactRecord;

const LEASES_PER_RECORD = 16;

export interface ObjectState {
  record: ObjectRecord;
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
 * Makes the state from records, one by one. The end of an unknown thing changes nothing: its
 * beginning may have been left out because it had ended, or be damaged.
 */
export class Replay {
  readonly #state: HubState = {
    sessions: new Map(),
    objects: new Map(),
    leases: new Map(),
    lastId: 0,
  };

  take(record: StoredRecord): void {
    apply(this.#state, record);
  }

  finish(): HubState {
    const { objects, sessions, leases } = this.#state;
    // WHY once, at the end: looking up the leases at each end would take a long journal for ever.
    // Numbers are never reused.
    for (const { id, object, session } of leases.values()) {
      if (!objects.has(object) || !sessions.has(session)) leases.delete(id);
    }
    const byName = new Map<string, ObjectState>();
    for (const object of objects.values()) {
      if (!object.named) continue;
      const { name } = object.record;
      const other = byName.get(name);
      // The record that removed the earlier object's name is missing: the later object exists.
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
      state.objects.set(record.id, {
        record,
        published: false,
        named: record.replace === undefined,
      });
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
        if (object.record.replace !== undefined) object.named = true;
        const { serviceUsers } = record;
        if (serviceUsers !== undefined) object.record = { ...object.record, serviceUsers };
      });
      if (record.replaced !== undefined) unname(state, record.replaced);
      break;
    case "unnamed":
      unname(state, record.object);
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
  if (state.objects.has(lease.object) && state.sessions.has(lease.session))
    state.leases.set(lease.id, lease);
}

function unpack([id, object, session, kind, sinceMs, role, place]: PackedLease): LeaseRecord {
  const lease = { t: "lease", id, object, session, kind, sinceMs } as const;
  return role === undefined ? lease : { ...lease, role, place: place ?? null };
}

function pack({ id, object, session, kind, sinceMs, role, place }: LeaseRecord): PackedLease {
  return role === undefined
    ? [id, object, session, kind, sinceMs]
    : [id, object, session, kind, sinceMs, role, place ?? null];
}

function unname(state: HubState, id: number): void {
  change(state, id, (object) => {
    object.named = false;
  });
}

function change(state: HubState, id: number, apply: (object: ObjectState) => void): void {
  const object = state.objects.get(id);
  if (object !== undefined) apply(object);
}

/** The shortest list that makes this state. */
export function recordsOf({
  lastId,
  sessions,
  objects,
  leases,
}: HubState): IterableIterator<StoredRecord> {
  return compactRecords(lastId, sessions.values(), objects.values(), leases.values());
}

/**
 * The same for live tables that are read slowly. Leases come last, because a lease counts only
 * after its session and its object.
 */
export function* compactRecords(
  lastId: number,
  sessions: Iterable<SessionRecord>,
  objects: Iterable<ObjectState>,
  leases: Iterable<LeaseRecord>,
): IterableIterator<StoredRecord> {
  if (lastId > 0) yield { t: "last-id", id: lastId };
  yield* sessions;
  for (const { record, published, named } of objects)
    yield { t: "kept", object: record, published, named };
  let of: PackedLease[] = [];
  for (const lease of leases) {
    of.push(pack(lease));
    if (of.length < LEASES_PER_RECORD) continue;
    yield { t: "leases", of };
    of = [];
  }
  if (of.length > 0) yield { t: "leases", of };
}
