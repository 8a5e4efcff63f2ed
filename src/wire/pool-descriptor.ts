/**
 * What travels of memory pools beside the pool's file descriptor: the pool itself, once for each process, and each buffer of it.
 * Every field is checked here for its form, and against the memory by whoever imports it.
 */
import * as v from "valibot";
import { checked } from "./codec.js";
import { deviceSchema } from "./devices.js";
import { count, positive } from "./numbers.js";

export const POOL_DESCRIPTOR_VERSION = 1;

const poolId = v.pipe(v.string(), v.uuid());
const version = v.literal(POOL_DESCRIPTOR_VERSION);

export const poolDescriptorSchema = v.strictObject({
  version,
  kind: v.literal("pool"),
  device: deviceSchema,
  /** Names the pool to every process that imports it. */
  pool: poolId,
  maxBytes: positive,
});

export type PoolDescriptor = v.InferOutput<typeof poolDescriptorSchema>;

export const pooledDescriptorSchema = v.strictObject({
  version,
  kind: v.literal("pooled"),
  pool: poolId,
  /** The driver's 64 bytes in base64. */
  data: v.pipe(v.string(), v.regex(/^[A-Za-z0-9+/]{86}==$/)),
  /** Bytes that belong to the content. */
  byteLength: count,
  /** Bytes of the allocation. */
  allocationByteLength: positive,
});

export type PooledDescriptor = v.InferOutput<typeof pooledDescriptorSchema>;

/** @throws INVALID_DESCRIPTOR */
export function checkPoolDescriptor(value: unknown): PoolDescriptor {
  return checked("a pool's descriptor", poolDescriptorSchema, value, "INVALID_DESCRIPTOR");
}

/** @throws INVALID_DESCRIPTOR */
export function checkPooledDescriptor(value: unknown): PooledDescriptor {
  return checked("the descriptor of a pool's buffer", pooledDescriptorSchema, value, "INVALID_DESCRIPTOR");
}
