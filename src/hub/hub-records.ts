/**
 * What a hub knows, as a list of small records: each change adds one, and all of them together make the state again. The journal is
 * such a list on disk. Descriptors are not in it: whoever holds the memory brings them back.
 */
import * as v from "valibot";
import { channelRoleSchema, placeSchema } from "../wire/channel-content.js";
import { checked } from "../wire/codec.js";
import { descriptorSchema } from "../wire/descriptor.js";
import { lifetimeSchema, sharingSchema, threadSchema } from "../wire/messages.js";

const id = v.pipe(v.number(), v.safeInteger(), v.minValue(1));
const count = v.pipe(v.number(), v.safeInteger(), v.minValue(0));
const word = v.pipe(v.string(), v.maxLength(128));

export const sessionRecordSchema = v.strictObject({
  t: v.literal("session"),
  id,
  pid: count,
  pidNamespace: count,
  pidfdInode: v.nullable(v.pipe(v.string(), v.maxLength(32))),
  startTicks: v.nullable(count),
  uid: count,
  gid: count,
  groups: v.array(count),
  program: word,
  /** The worker thread that the session ends with, and whether the hub could see that thread. */
  thread: v.optional(v.strictObject({ ...threadSchema.entries, isSeen: v.boolean() })),
});

const objectRecord = v.strictObject({
  t: v.literal("object"),
  id,
  name: v.pipe(v.string(), v.maxLength(255)),
  lifetime: lifetimeSchema,
  sharing: sharingSchema,
  descriptor: descriptorSchema,
  createdAtMs: count,
  owner: v.strictObject({ pid: count, uid: count, gid: count }),
  /** Which files the host memory and the index are, so that no others can be brought in their place; null for memory of a GPU. */
  inodes: v.array(v.nullable(v.pipe(v.string(), v.maxLength(64)))),
  /** Whether host memory came in a way that lets others write to it. */
  writable: v.boolean(),
});

const leaseRecord = v.strictObject({
  t: v.literal("lease"),
  id,
  object: id,
  session: id,
  kind: v.picklist(["owner", "read", "read-write"]),
  /** Of a channel. */
  role: v.optional(channelRoleSchema),
  place: v.optional(v.nullable(placeSchema)),
});

const recordSchema = v.variant("t", [
  sessionRecordSchema,
  objectRecord,
  leaseRecord,
  v.strictObject({ t: v.literal("published"), object: id }),
  /** Its name was taken away; it lives for its leases. */
  v.strictObject({ t: v.literal("unnamed"), object: id }),
  v.strictObject({ t: v.literal("object-ended"), object: id }),
  v.strictObject({ t: v.literal("released"), lease: id }),
  v.strictObject({ t: v.literal("session-ended"), session: id }),
  /** Every number up to this one may have been given to somebody. */
  v.strictObject({ t: v.literal("last-id"), id }),
]);

export type HubRecord = v.InferOutput<typeof recordSchema>;
export type SessionRecord = v.InferOutput<typeof sessionRecordSchema>;
export type SessionThread = NonNullable<SessionRecord["thread"]>;
export type ObjectRecord = v.InferOutput<typeof objectRecord>;
export type LeaseRecord = v.InferOutput<typeof leaseRecord>;

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

/** @throws INVALID_MESSAGE */
export function checkRecord(what: string, value: unknown): HubRecord {
  return checked(what, recordSchema, value);
}

/**
 * The state that these records make. What ends an unknown thing changes nothing: the record of its beginning may have been left out
 * because it had ended.
 */
export function replay(records: Iterable<HubRecord>): HubState {
  const state: HubState = { sessions: new Map(), objects: new Map(), leases: new Map(), lastId: 0 };
  for (const record of records) apply(state, record);
  // WHY once, at the end: to look for its leases at each end would take a long journal for ever, and no number comes again.
  for (const { id, object, session } of state.leases.values()) {
    if (!state.objects.has(object) || !state.sessions.has(session)) state.leases.delete(id);
  }
  return state;
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
