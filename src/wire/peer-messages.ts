/**
 * The messages between processes that share without a hub. Each is one JSON document in one SEQPACKET packet, on a connection
 * that serves one purpose: fetching descriptors by their token, receiving an offer, or joining a group.
 */
import * as v from "valibot";
import { limits } from "../base/limits.js";
import { descriptorSchema } from "./descriptor.js";
import { growthSchema } from "./growing-descriptor.js";
import { count, positive } from "./numbers.js";

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
 * To an exporter: the descriptors that are registered under a token, answered with them; or of memory that grows the pieces from this
 * number on, answered with them and their sizes; or with a refusal.
 */
export const fetchSchema = v.variant("op", [
  v.strictObject({ ...head, op: v.literal("fetch"), token }),
  v.strictObject({ ...head, op: v.literal("grow"), token, from: count }),
]);
export const fetchedSchema = v.variant("ok", [v.strictObject({ ...head, ok: v.literal(true) }), refusalSchema]);

export const grownSchema = v.variant("ok", [
  v.strictObject({ ...head, ok: v.literal(true), growth: growthSchema }),
  refusalSchema,
]);

/** From a producer to each that connects, with the descriptor of the memory; or a refusal. */
export const offeredSchema = v.variant("ok", [
  v.strictObject({
    ...head,
    ok: v.literal(true),
    access: v.picklist(["read", "read-write"]),
    descriptor: descriptorSchema,
  }),
  refusalSchema,
]);
/** From a consumer that has done with what was offered. */
export const acknowledgeSchema = v.strictObject({ ...head, op: v.literal("acknowledge") });

/** A member of a group, as it knows itself. */
const memberSchema = v.strictObject({ pid: positive, startTicks: count, pidNamespace: count });

/**
 * To rank 0 of a group. Answered, once all have come, with the members in order of ranks, the group's memory, and pidfds: one of each
 * other member in order of ranks, unless both that member and the receiver are in rank 0's PID namespace. Or with a refusal.
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
  | v.InferOutput<typeof fetchSchema>
  | v.InferOutput<typeof fetchedSchema>
  | v.InferOutput<typeof grownSchema>
  | v.InferOutput<typeof offeredSchema>
  | v.InferOutput<typeof acknowledgeSchema>
  | v.InferOutput<typeof joinSchema>
  | v.InferOutput<typeof joinedSchema>;
