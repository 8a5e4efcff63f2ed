/**
 * The messages between client and hub. Each is one JSON document of at most 64 KiB in one SEQPACKET packet:
 * a request `{v, id, op, ...}` from the client, and for each request one reply `{v, id, ok, ...}` with the same id.
 * docs/protocol.md explains them; the schemas here are what is enforced.
 */
import * as v from "valibot";
import { channelRoleSchema, placeSchema } from "./channel-content.js";
import { descriptorSchema } from "./descriptor.js";
import { isValidName } from "./names.js";
import { count, positive } from "./numbers.js";

export const PROTOCOL_VERSION = 1;

const word = v.pipe(v.string(), v.maxLength(128));
// WHY: any string here, judged by the hub, so that a bad name is answered with INVALID_NAME and not as a broken message.
const anyName = v.pipe(v.string(), v.maxLength(16 * 1024));
const goodName = v.pipe(v.string(), v.check(isValidName, "not a valid name"));
const head = { v: v.literal(PROTOCOL_VERSION), id: positive };

const access = v.picklist(["read", "read-write"]);
export const lifetimeSchema = v.picklist(["held", "pinned"]);

export type Lifetime = v.InferOutput<typeof lifetimeSchema>;

/** Whom an object is shared with beside its owner's user: nobody, the owner's group, or every user that the hub serves; and for what. */
export const sharingSchema = v.strictObject({ with: v.picklist(["private", "group", "all"]), access });

export type Sharing = v.InferOutput<typeof sharingSchema>;

export const PRIVATE: Sharing = { with: "private", access: "read" };

/** A thread of the client's process, as the thread itself sees its number; `startTicks` as in /proc/PID/task/TID/stat. */
const threadSchema = v.strictObject({ tid: positive, startTicks: count });

export const requestSchema = v.variant("op", [
  /**
   * First message of a connection. With `resume` it goes on with a session that the same process had on an earlier connection.
   * With `thread` the session ends with that thread of the process.
   */
  v.strictObject({
    ...head,
    op: v.literal("hello"),
    client: v.strictObject({ version: word, program: word }),
    resume: v.optional(v.strictObject({ session: positive })),
    thread: v.optional(threadSchema),
  }),
  /** After `resume`: this lease is still held. With it come the object's descriptors, for a hub that has lost them, or none. */
  v.strictObject({ ...head, op: v.literal("restore"), lease: positive }),
  /** After all `restore`: leases of this session that were not named are given back. */
  v.strictObject({ ...head, op: v.literal("restored") }),
  /** Registers memory under a name; with it come its descriptors, as many as `fdsOf` says. Not yet visible to `open`. */
  v.strictObject({
    ...head,
    op: v.literal("create"),
    name: anyName,
    lifetime: lifetimeSchema,
    descriptor: descriptorSchema,
    sharing: v.optional(sharingSchema),
  }),
  v.strictObject({ ...head, op: v.literal("publish"), object: positive }),
  /** Answered when the name is published; at once where `wait` is false. With a role for channels, and for nothing else. */
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
   * already. With `explain` the answer says why the open had to wait.
   */
  v.strictObject({ ...head, op: v.literal("cancel"), request: positive, explain: v.optional(v.boolean()) }),
  v.strictObject({ ...head, op: v.literal("release"), lease: positive }),
  v.strictObject({ ...head, op: v.literal("remove"), name: anyName }),
  v.strictObject({ ...head, op: v.literal("list"), after: v.optional(anyName) }),
  v.strictObject({ ...head, op: v.literal("inspect"), name: anyName }),
  v.strictObject({ ...head, op: v.literal("status") }),
  v.strictObject({ ...head, op: v.literal("stop"), force: v.boolean() }),
  /** Ends this hub's process; its keeper or service manager starts the next one, which goes on with everything. */
  v.strictObject({ ...head, op: v.literal("restart") }),
  /** Last message of a session: everything it holds is given back at once. */
  v.strictObject({ ...head, op: v.literal("bye") }),
]);

export type Request = v.InferOutput<typeof requestSchema>;
export type RequestOf<Op extends Request["op"]> = Extract<Request, { op: Op }>;

const objectSummary = v.strictObject({
  name: goodName,
  object: positive,
  published: v.boolean(),
  lifetime: lifetimeSchema,
  sharing: sharingSchema,
  leases: count,
  ownerPid: v.nullable(count),
  ownerUid: count,
  /** False after a crash of the hub until somebody who holds the memory has brought it back. */
  hasMemory: v.boolean(),
  createdAtMs: count,
  descriptor: descriptorSchema,
});

export type ObjectSummary = v.InferOutput<typeof objectSummary>;

const holder = v.strictObject({
  pid: count,
  program: word,
  access: v.picklist(["owner", "read", "read-write"]),
  /** Of a channel, and which place where it is a reader. */
  role: v.optional(channelRoleSchema),
  place: v.optional(placeSchema),
});

export type Holder = v.InferOutput<typeof holder>;

/** A limit that is set for the hub, for the user who asks, or for the client that asks. */
const limitStatus = v.strictObject({
  of: v.picklist(["hub", "user", "client"]),
  /** As in the configuration: `objects`, `hostBytes`, `messagesPerSecond`. */
  resource: word,
  limit: count,
  /** Null for what is no stock, but a rate. */
  used: v.nullable(count),
});

const userStatus = v.strictObject({
  uid: count,
  clients: count,
  objects: count,
  leases: count,
  waitingOpens: count,
  hostBytes: count,
  deviceBytes: count,
});

/** An object whose memory was lost because hub and keeper ended together. */
const lostObject = v.strictObject({
  name: goodName,
  byteLength: count,
  /** `host`, or the UUID of a GPU. */
  device: v.pipe(v.string(), v.maxLength(64)),
  ownerPid: count,
  ownerUid: count,
  lostAtMs: count,
});

export type LostObject = v.InferOutput<typeof lostObject>;

const hubStatus = v.strictObject({
  version: word,
  instance: word,
  pid: count,
  startedAtMs: count,
  socket: v.string(),
  clients: count,
  /** Sessions whose connection has ended and whose process still holds something. */
  detached: count,
  objects: count,
  /** Objects whose memory has not been brought back yet after a crash of the hub. */
  withoutMemory: count,
  pinned: count,
  leases: count,
  waitingOpens: count,
  hostBytes: count,
  deviceBytes: count,
  /** How long the hub stays without clients and pinned objects; null for ever. */
  idleMs: v.nullable(count),
  /** The process that has the descriptors for the next hub, and how many; null without one. */
  keeper: v.nullable(v.strictObject({ pid: count, descriptors: count, pending: count })),
  /** The latest of those that this client could have opened. */
  lost: v.array(lostObject),
  limits: v.array(limitStatus),
  /** Those who use something, with what they use: for the hub's user and root all, for others themselves. */
  users: v.array(userStatus),
  /** Users beyond those that are named. */
  usersLeftOut: count,
  /** What is amiss with the files beside the socket, and what to do about it. */
  troubles: v.array(v.string()),
});

export type HubStatus = v.InferOutput<typeof hubStatus>;

const none = v.strictObject({});

/** What a successful reply to each request carries as `result`. */
export const resultSchemas = {
  /** `session` is what a later connection can resume; `resumed` says whether this one did. */
  hello: v.strictObject({ version: word, instance: word, pid: count, session: positive, resumed: v.boolean() }),
  restore: none,
  restored: none,
  create: v.strictObject({ object: positive, lease: positive }),
  publish: none,
  /** With it come the memory's descriptor and, for a bundle, its index; of a channel what its role has, and a reader's place. */
  open: v.strictObject({
    object: positive,
    lease: positive,
    descriptor: descriptorSchema,
    place: v.optional(placeSchema),
  }),
  /**
   * `found`: what kept the open waiting, in words; left out where it waited no more, or nobody
   * asked.
   */
  cancel: v.strictObject({ found: v.optional(v.pipe(v.string(), v.maxLength(1024))) }),
  release: none,
  remove: none,
  /** In order of names; `next` is what to pass as `after` for the following page. */
  list: v.strictObject({ objects: v.array(objectSummary), next: v.nullable(v.string()) }),
  inspect: v.strictObject({ object: objectSummary, holders: v.array(holder), holdersLeftOut: count }),
  status: hubStatus,
  stop: none,
  restart: none,
  bye: none,
} as const satisfies Record<Request["op"], v.GenericSchema>;

export type ResultOf<Op extends Request["op"]> = v.InferOutput<(typeof resultSchemas)[Op]>;

export const replySchema = v.variant("ok", [
  v.strictObject({ ...head, ok: v.literal(true), result: v.unknown() }),
  v.strictObject({
    v: v.literal(PROTOCOL_VERSION),
    /** 0 where the hub could not read the id of the request. */
    id: count,
    ok: v.literal(false),
    error: v.strictObject({
      code: v.pipe(v.string(), v.maxLength(64)),
      message: v.pipe(v.string(), v.maxLength(16 * 1024)),
    }),
  }),
]);

export type Reply = v.InferOutput<typeof replySchema>;
