/**
 * The messages between client and hub. Each is one JSON document of at most 64 KiB in one SEQPACKET
 * packet: a request `{v, id, op, ...}` from the client, and one reply `{v, id, ok, ...}` with the
 * same id. docs/protocol.md explains them. These schemas are what is enforced.
 */
import * as v from "valibot";
import { limits } from "../base/limits.js";
import { channelRoleSchema, seatSchema } from "./channel-content.js";
import { descriptorSchema } from "./descriptor.js";
import { hubStatusSchema } from "./hub-status.js";
import { count, goodName, positive, word } from "./schemas.js";

export type { HubStatus, LostObject } from "./hub-status.js";

export const PROTOCOL_VERSION = 1;

// Any string: the hub answers a bad name with INVALID_NAME instead of refusing the message.
const anyName = v.pipe(v.string(), v.maxLength(16 * 1024));
const head = { v: v.literal(PROTOCOL_VERSION), id: positive };

const access = v.picklist(["read", "read-write"]);
export const lifetimeSchema = v.picklist(["held", "pinned"]);

export type Lifetime = v.InferOutput<typeof lifetimeSchema>;

/**
 * With which other users an object is shared: none, the owner's group, or all that the hub serves;
 * and their access. `machines`: its owner wants other machines to see it. The hub only tells so.
 */
export const sharingSchema = v.strictObject({
  with: v.picklist(["private", "group", "all"]),
  access,
  machines: v.optional(v.boolean()),
});

export type Sharing = v.InferOutput<typeof sharingSchema>;

export const PRIVATE: Sharing = { with: "private", access: "read" };

/**
 * What a new object may take its name from: an object of its own kind (true), of any kind, or only
 * the one with this number.
 */
export const replaceSchema = v.union([v.literal(true), v.literal("any"), positive]);

export type Replace = v.InferOutput<typeof replaceSchema>;

/** Users whose processes may be workers of a service. */
const serviceUsersSchema = v.pipe(v.array(count), v.maxLength(limits.serviceUsersMax));

/**
 * A thread of the client's process, by its own view of its number. `startTicks` is as in
 * /proc/PID/task/TID/stat.
 */
const threadSchema = v.strictObject({ tid: positive, startTicks: count });

export const requestSchema = v.variant("op", [
  /**
   * The first message of a connection. `resume` continues a session that the same process had on an
   * earlier connection. With `thread` the session ends with that thread.
   */
  v.strictObject({
    ...head,
    op: v.literal("hello"),
    client: v.strictObject({ version: word, program: word }),
    resume: v.optional(v.strictObject({ session: positive })),
    thread: v.optional(threadSchema),
  }),
  /**
   * After `resume`: this lease is still held. The object's descriptors may come with it, for a hub
   * that has lost them.
   */
  v.strictObject({ ...head, op: v.literal("restore"), lease: positive }),
  /** After all `restore` messages: leases of this session that were not named are released. */
  v.strictObject({ ...head, op: v.literal("restored") }),
  /**
   * Registers memory under a name. As many descriptors come with it as `fdsOf` says. `open` does
   * not see it yet. With `replace` the object gets the name only when it is published, in one step
   * from the object that has it then. The first offer of a service says in `workers` which users
   * may be its workers, beside its own; for later offers it says nothing.
   */
  v.strictObject({
    ...head,
    op: v.literal("create"),
    name: anyName,
    lifetime: lifetimeSchema,
    descriptor: descriptorSchema,
    sharing: v.optional(sharingSchema),
    replace: v.optional(replaceSchema),
    workers: v.optional(serviceUsersSchema),
  }),
  v.strictObject({ ...head, op: v.literal("publish"), object: positive }),
  /** Answered when the name is published; with `wait: false` at once. Only channels have a role. */
  v.strictObject({
    ...head,
    op: v.literal("open"),
    name: anyName,
    access,
    wait: v.boolean(),
    role: v.optional(channelRoleSchema),
  }),
  /**
   * Ends the wait of an earlier `open`, which is then answered with ABORTED unless it was answered
   * before. With `explain` the reply says why the open had to wait.
   */
  v.strictObject({
    ...head,
    op: v.literal("cancel"),
    request: positive,
    explain: v.optional(v.boolean()),
  }),
  v.strictObject({ ...head, op: v.literal("release"), lease: positive }),
  /**
   * Takes the name away, and is answered once the owner's lease is the only one. For the owner of
   * memory that others must not use after it.
   */
  v.strictObject({ ...head, op: v.literal("drain"), object: positive }),
  /**
   * With the number of an object: only if it has the name. With `unheldSinceMs` of an entry of
   * `list`: only if it was not used since that entry.
   */
  v.strictObject({
    ...head,
    op: v.literal("remove"),
    name: anyName,
    object: v.optional(positive),
    unheldSinceMs: v.optional(count),
  }),
  /**
   * With `holders`, each entry has its holders. With `nameless`, it lists only the objects that
   * have no name, in the order of their numbers.
   */
  v.strictObject({
    ...head,
    op: v.literal("list"),
    after: v.optional(anyName),
    holders: v.optional(v.boolean()),
    nameless: v.optional(v.boolean()),
  }),
  /**
   * The objects that changed since an earlier answer. Without `since`: where to begin. With `wait`
   * it is answered when there is a change.
   */
  v.strictObject({
    ...head,
    op: v.literal("changes"),
    since: v.optional(count),
    wait: v.optional(v.boolean()),
  }),
  /** The sessions with a larger number than `after`. */
  v.strictObject({ ...head, op: v.literal("clients"), after: v.optional(positive) }),
  v.strictObject({ ...head, op: v.literal("inspect"), name: anyName }),
  v.strictObject({ ...head, op: v.literal("status") }),
  v.strictObject({ ...head, op: v.literal("stop"), force: v.boolean() }),
  /**
   * Ends this hub's process. Its keeper or service manager starts the next one, which continues
   * with everything.
   */
  v.strictObject({ ...head, op: v.literal("restart") }),
  /** Ends the session of another client. Its leases end when its process ends or comes back. */
  v.strictObject({ ...head, op: v.literal("disconnect"), session: positive }),
  /** The last message of a session: everything it holds is released at once. */
  v.strictObject({ ...head, op: v.literal("bye") }),
]);

export type Request = v.InferOutput<typeof requestSchema>;
export type RequestOf<Op extends Request["op"]> = Extract<Request, { op: Op }>;

// Answers: fields that are unknown here are ignored, so that a later hub may say more. Descriptors
// are strict, because an unknown field may say that the memory is to be used in another way.
const holder = v.object({
  pid: count,
  program: word,
  access: v.picklist(["owner", "read", "read-write"]),
  /** As in `clients`. */
  session: positive,
  /** Since when it holds the object, in Unix milliseconds. */
  sinceMs: count,
  /** For a channel; `place` is the seat of a reader. */
  role: v.optional(channelRoleSchema),
  place: v.optional(seatSchema),
});

export type Holder = v.InferOutput<typeof holder>;

const summaryFields = {
  name: goodName,
  object: positive,
  published: v.boolean(),
  lifetime: lifetimeSchema,
  sharing: sharingSchema,
  leases: count,
  ownerPid: v.nullable(count),
  ownerUid: count,
  /** False after a crash of the hub, until a process that holds the memory brings it back. */
  hasMemory: v.boolean(),
  createdAtMs: count,
  /** When its last lease ended, in Unix milliseconds. Null while it has leases. */
  unheldSinceMs: v.nullable(count),
  descriptor: descriptorSchema,
  /** Of an offer, if several users may be workers of its service: first the one who said so. */
  serviceUsers: v.optional(v.array(count)),
};
const objectSummary = v.object(summaryFields);

/** `leases` counts all holders. `holders` has the oldest of them. */
const heldFields = { ...summaryFields, holders: v.optional(v.array(holder)) };
const heldObject = v.object(heldFields);
/** With `nameless` it has lost `name`, or has yet to take it over at its publish. */
const listedObject = v.object({ ...heldFields, nameless: v.optional(v.literal(true)) });

export type ObjectSummary = v.InferOutput<typeof listedObject>;
/** An entry of a list that was asked for its holders. */
export type HeldObject = ObjectSummary;

/** A session, which is one client. */
const clientStatus = v.object({
  session: positive,
  pid: count,
  uid: count,
  program: word,
  /** False if its connection has ended and its process still holds something. */
  connected: v.boolean(),
  leases: count,
  waitingOpens: count,
  /** Of the objects that it created and still holds. */
  hostBytes: count,
  deviceBytes: count,
});

export type ClientStatus = v.InferOutput<typeof clientStatus>;

const none = v.object({});

/** The `result` of a successful reply to each request. */
export const resultSchemas = {
  /** A later connection can resume `session`. `resumed` says whether this one did. */
  hello: v.object({
    version: word,
    instance: word,
    pid: count,
    session: positive,
    resumed: v.boolean(),
  }),
  restore: none,
  restored: none,
  create: v.object({ object: positive, lease: positive }),
  publish: none,
  /**
   * The memory's descriptor comes with it, and the index of a bundle. For a channel, the role's
   * descriptors come, and a reader's seat in `place`.
   */
  open: v.object({
    object: positive,
    lease: positive,
    descriptor: descriptorSchema,
    place: v.optional(seatSchema),
  }),
  /**
   * `found` says what kept the open waiting. It is missing if the open no longer waited, or if the
   * request did not ask for it.
   */
  cancel: v.object({ found: v.optional(v.pipe(v.string(), v.maxLength(1024))) }),
  release: none,
  drain: none,
  remove: none,
  /** In the order of the request. Pass `next` as `after` to get the following page. */
  list: v.object({ objects: v.array(listedObject), next: v.nullable(goodName) }),
  /**
   * Pass `next` as `since` to get what follows, at once if there is `more`. `ended` has the numbers
   * of objects that lost their names. With `reset` the hub does not know what changed since: list
   * everything, then go on from `next`.
   */
  changes: v.object({
    objects: v.array(heldObject),
    ended: v.array(positive),
    next: count,
    more: v.boolean(),
    reset: v.boolean(),
  }),
  /** Pass `next` as `after` to get the following page. */
  clients: v.object({ clients: v.array(clientStatus), next: v.nullable(positive) }),
  inspect: v.object({
    object: objectSummary,
    holders: v.array(holder),
    holdersLeftOut: count,
  }),
  status: hubStatusSchema,
  stop: none,
  restart: none,
  disconnect: none,
  bye: none,
} as const satisfies Record<Request["op"], v.GenericSchema>;

export type ResultOf<Op extends Request["op"]> = v.InferOutput<(typeof resultSchemas)[Op]>;

export const replySchema = v.variant("ok", [
  v.object({ ...head, ok: v.literal(true), result: v.unknown() }),
  v.object({
    v: v.literal(PROTOCOL_VERSION),
    /** 0 if the hub could not read the id of the request. */
    id: count,
    ok: v.literal(false),
    error: v.object({
      code: v.string(),
      message: v.string(),
    }),
  }),
]);

export type Reply = v.InferOutput<typeof replySchema>;
