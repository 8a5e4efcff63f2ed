/**
 * The messages about growing memory, beside the file descriptors of its pieces: first all pieces,
 * later the new ones. Their form is checked here, and the memory by the code that imports it.
 */
import * as v from "valibot";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { checked } from "./codec.js";
import { count, deviceSchema, positive } from "./schemas.js";

export const GROWING_DESCRIPTOR_VERSION = 1;

const pieces = v.pipe(v.array(positive), v.maxLength(limits.growingPiecesMax));

/** The pieces from number `from` on, in order. As many file descriptors come with them. */
export const growthSchema = v.strictObject({
  from: v.pipe(count, v.maxValue(limits.growingPiecesMax)),
  byteLengths: pieces,
  /** Bytes of the content when these pieces are mapped. */
  byteLength: count,
});

export type Growth = v.InferOutput<typeof growthSchema>;

export const growingDescriptorSchema = v.strictObject({
  version: v.literal(GROWING_DESCRIPTOR_VERSION),
  kind: v.literal("growing"),
  device: deviceSchema,
  /** The address space that every process reserves. */
  maxByteLength: v.pipe(positive, v.maxValue(limits.reservationBytesMax)),
  growth: growthSchema,
});

export type GrowingDescriptor = v.InferOutput<typeof growingDescriptorSchema>;

/** @throws INVALID_DESCRIPTOR */
export function checkGrowingDescriptor(value: unknown): GrowingDescriptor {
  const descriptor = checked(
    "the descriptor of growing memory",
    growingDescriptorSchema,
    value,
    "INVALID_DESCRIPTOR",
  );
  const { growth, maxByteLength } = descriptor;
  if (growth.from !== 0) throw invalid(`its first piece is number ${growth.from}, wanted 0`);
  const total = growth.byteLengths.reduce((sum, length) => sum + length, 0);
  if (total > maxByteLength)
    throw invalid(`pieces of ${total} bytes in ${maxByteLength} bytes of addresses`);
  if (growth.byteLength > total)
    throw invalid(`content of ${growth.byteLength} bytes in pieces of ${total}`);
  return descriptor;
}

/** @throws INVALID_DESCRIPTOR */
export function checkGrowth(value: unknown): Growth {
  return checked("the growth of memory", growthSchema, value, "INVALID_DESCRIPTOR");
}

function invalid(found: string): CudaIpcError {
  return new CudaIpcError(
    "INVALID_DESCRIPTOR",
    `Cannot read the descriptor of growing memory: ${found}`,
  );
}
