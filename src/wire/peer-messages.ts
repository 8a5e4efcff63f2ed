/**
 * The messages between processes without a hub. Each is one JSON document in one SEQPACKET packet.
 * A connection has one purpose: to fetch descriptors by a token, to receive an offer, or to join a
 * group.
 */
import * as v from "valibot";
import { limits } from "../base/limits.js";
import type { BridgeMessage } from "./bridge-messages.js";
import { descriptorSchema } from "./descriptor.js";
import { growthSchema } from "./growing-descriptor.js";
import { count, positive } from "./schemas.js";

export const PEER_VERSION = 1;

const head = { v: v.literal(PEER_VERSION) };

export const refusalSchema = v.strictObject({
  ...head,
  ok: v.literal(false),
  error: v.strictObject({
    code: v.pipe(v.string(), v.maxLength(64)),
    message: v.pipe(v.string(), v.maxLength(4 * 1024)),
  }),
});

const token = v.pipe(v.string(), v.maxLength(64));

/**
 * To an exporter. `fetch` asks for the descriptors under a token. `grow` asks for the pieces of
 * growing memory from number `from` on, and for their sizes. The reply may be a refusal.
 */
export const fetchSchema = v.variant("op", [
  v.strictObject({ ...head, op: v.literal("fetch"), token }),
  v.strictObject({ ...head, op: v.literal("grow"), token, from: count }),
]);
export const fetchedSchema = v.variant("ok", [
  v.strictObject({ ...head, ok: v.literal(true) }),
  refusalSchema,
]);

export const grownSchema = v.variant("ok", [
  v.strictObject({ ...head, ok: v.literal(true), growth: growthSchema }),
  refusalSchema,
]);

/** From a producer to each consumer that connects, with the memory's descriptor; or a refusal. */
export const offeredSchema = v.variant("ok", [
  v.strictObject({
    ...head,
    ok: v.literal(true),
    access: v.picklist(["read", "read-write"]),
    descriptor: descriptorSchema,
  }),
  refusalSchema,
]);
/** From a consumer that has finished with the offer. */
export const acknowledgeSchema = v.strictObject({ ...head, op: v.literal("acknowledge") });

/** A member of a group, by its own view of its numbers. */
const memberSchema = v.strictObject({ pid: positive, startTicks: count, pidNamespace: count });

/**
 * To rank 0 of a group. The reply comes when all members have joined, with the members and the
 * group's memory; or it is a refusal. A pidfd of each other member comes with it, in the order of
 * ranks, unless both that member and the receiver are in rank 0's PID namespace.
 */
export const joinSchema = v.strictObject({
  ...head,
  op: v.literal("join"),
  rank: count,
  size: count,
  member: memberSchema,
});
export const joinedSchema = v.variant("ok", [
  v.strictObject({
    ...head,
    ok: v.literal(true),
    members: v.pipe(v.array(memberSchema), v.maxLength(limits.groupSizeMax)),
  }),
  refusalSchema,
]);

export type Refusal = v.InferOutput<typeof refusalSchema>;

export type PeerMessage =
  | BridgeMessage
  | v.InferOutput<typeof fetchSchema>
  | v.InferOutput<typeof fetchedSchema>
  | v.InferOutput<typeof grownSchema>
  | v.InferOutput<typeof offeredSchema>
  | v.InferOutput<typeof acknowledgeSchema>
  | v.InferOutput<typeof joinSchema>
  | v.InferOutput<typeof joinedSchema>;
