/**
 * The descriptors of a memory pool and of a buffer in it, beside the pool's file descriptor. Their
 * form is checked here, and the memory by the code that imports it.
 */
import * as v from "valibot";
import { checked } from "./codec.js";
import { count, deviceSchema, positive } from "./schemas.js";

export const POOL_DESCRIPTOR_VERSION = 1;

const poolId = v.pipe(v.string(), v.uuid());
const version = v.literal(POOL_DESCRIPTOR_VERSION);

export const poolDescriptorSchema = v.strictObject({
  version,
  kind: v.literal("pool"),
  device: deviceSchema,
  /** The id of the pool in all processes. */
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
  /** Bytes of the content. */
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
  return checked(
    "the descriptor of a pool's buffer",
    pooledDescriptorSchema,
    value,
    "INVALID_DESCRIPTOR",
  );
}
