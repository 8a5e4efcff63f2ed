/** Turns sessions, objects and leases into journal records, and objects back. */

import type { Session } from "../core/sessions.js";
import { type Lease, ObjectLeases, type SharedObject } from "../objects/shared-object.js";
import {
  compactRecords,
  type HubState,
  type LeaseRecord,
  type ObjectRecord,
  type ObjectState,
  type SessionRecord,
  type StoredRecord,
} from "./hub-records.js";

export function sessionRecord<Fd>({ id, peer, program, thread }: Session<Fd>): SessionRecord {
  const ofThread = thread === undefined ? {} : { thread };
  return { t: "session", id, ...peer, groups: [...peer.groups], program, ...ofThread };
}

export function objectRecord<Fd>(
  object: Omit<SharedObject<Fd>, "leases" | "memory" | "account" | "changedAt" | "releasedAtMs">,
): ObjectRecord {
  const { id, name, lifetime, sharing, descriptor, createdAtMs, owner, inodes, writable } = object;
  const { replace, serviceUsers } = object;
  return {
    t: "object",
    id,
    name,
    lifetime,
    sharing,
    descriptor,
    createdAtMs,
    owner,
    inodes,
    writable,
    ...(replace === undefined ? {} : { replace }),
    ...(serviceUsers === undefined ? {} : { serviceUsers }),
  };
}

export function leaseRecord<Fd>(lease: Lease<Fd>): LeaseRecord {
  const { id, kind, object, session, role, seat, sinceMs } = lease;
  const ofChannel = role === undefined ? {} : { role, place: seat ?? null };
  return { t: "lease", id, object: object.id, session: session.id, kind, sinceMs, ...ofChannel };
}

/** The parts of an object that its record does not have. */
export type RestoredState<Fd> = Pick<
  SharedObject<Fd>,
  "published" | "named" | "account" | "memory"
>;

/**
 * Makes the object again, without leases. WHY no spread: at the start of a large hub it takes three
 * times as long as everything else.
 */
export function objectOf<Fd>(record: ObjectRecord, state: RestoredState<Fd>): SharedObject<Fd> {
  return {
    id: record.id,
    name: record.name,
    lifetime: record.lifetime,
    sharing: record.sharing,
    descriptor: record.descriptor,
    createdAtMs: record.createdAtMs,
    owner: record.owner,
    inodes: record.inodes,
    writable: record.writable,
    replace: record.replace,
    serviceUsers: record.serviceUsers,
    account: state.account,
    leases: new ObjectLeases(),
    memory: state.memory,
    published: state.published,
    named: state.named,
    changedAt: 0,
    releasedAtMs: 0,
  };
}

/** The whole state, except sessions that hold nothing. */
export function stateOf<Fd>(
  sessions: Iterable<Session<Fd>>,
  objects: Iterable<SharedObject<Fd>>,
  lastId: number,
): HubState {
  const state: HubState = { sessions: new Map(), objects: new Map(), leases: new Map(), lastId };
  for (const session of sessions) {
    if (session.recorded) state.sessions.set(session.id, sessionRecord(session));
  }
  for (const object of objects) {
    const { published, named } = object;
    state.objects.set(object.id, { record: objectRecord(object), published, named });
    for (const lease of object.leases.values()) state.leases.set(lease.id, leaseRecord(lease));
  }
  return state;
}

/** The same as records, read from live tables that may change meanwhile (journal-rewrite.ts). */
export function liveRecords<Fd>(
  sessions: Iterable<Session<Fd>>,
  objects: Iterable<SharedObject<Fd>>,
  leases: Iterable<Lease<Fd>>,
  lastId: number,
): IterableIterator<StoredRecord> {
  return compactRecords(lastId, recorded(sessions), states(objects), leaseRecords(leases));
}

function* recorded<Fd>(sessions: Iterable<Session<Fd>>): IterableIterator<SessionRecord> {
  for (const session of sessions) if (session.recorded) yield sessionRecord(session);
}

function* states<Fd>(objects: Iterable<SharedObject<Fd>>): IterableIterator<ObjectState> {
  for (const object of objects) {
    yield { record: objectRecord(object), published: object.published, named: object.named };
  }
}

function* leaseRecords<Fd>(leases: Iterable<Lease<Fd>>): IterableIterator<LeaseRecord> {
  for (const lease of leases) yield leaseRecord(lease);
}
