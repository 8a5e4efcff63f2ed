/** What a hub says about itself, its limits and its users. */
import * as v from "valibot";
import { count, goodName, word } from "./schemas.js";

/** A limit of the hub, of the user who asks, or of the client that asks. */
const limitStatus = v.object({
  of: v.picklist(["hub", "user", "client"]),
  /** As in the configuration: `objects`, `hostBytes`, `messagesPerSecond`. */
  resource: word,
  limit: count,
  /** Null for rates. */
  used: v.nullable(count),
});

const userStatus = v.object({
  uid: count,
  clients: count,
  objects: count,
  leases: count,
  waitingOpens: count,
  hostBytes: count,
  deviceBytes: count,
});

/** An object whose memory was lost because hub and keeper ended together. */
const lostObject = v.object({
  name: goodName,
  byteLength: count,
  /** `host`, or the UUID of a GPU. */
  device: v.pipe(v.string(), v.maxLength(64)),
  ownerPid: count,
  ownerUid: count,
  lostAtMs: count,
});

export type LostObject = v.InferOutput<typeof lostObject>;

export const hubStatusSchema = v.object({
  version: word,
  instance: word,
  pid: count,
  startedAtMs: count,
  socket: v.string(),
  clients: count,
  /** Sessions without a connection whose process still holds something. */
  detached: count,
  objects: count,
  /** Objects whose memory has not been brought back after a crash of the hub. */
  withoutMemory: count,
  pinned: count,
  /** Objects without a name, of all users: only their holders keep them. */
  nameless: v.object({ objects: count, hostBytes: count, deviceBytes: count }),
  leases: count,
  waitingOpens: count,
  hostBytes: count,
  deviceBytes: count,
  /** How long the hub stays without clients and pinned objects; null for ever. */
  idleMs: v.nullable(count),
  /** The process that keeps the descriptors for the next hub; null without one. */
  keeper: v.nullable(v.object({ pid: count, descriptors: count, pending: count })),
  /** The URL of the metrics that a child process of the hub serves; null without one. */
  metrics: v.nullable(v.string()),
  /** The latest of those that this client could have opened. */
  lost: v.array(lostObject),
  limits: v.array(limitStatus),
  /** Users and what they use. The hub's user and root see all, others see themselves. */
  users: v.array(userStatus),
  /** Users beyond those in the list. */
  usersLeftOut: count,
  /** Problems with files beside the socket or with what the system refuses, and what to do. */
  troubles: v.array(v.string()),
});

export type HubStatus = v.InferOutput<typeof hubStatusSchema>;
