/**
 * The layout of a host pool's memory file: a header, a record for each unit of data, and the data.
 * The hub needs the size of the whole file, and the driver all of it.
 */
import { roundUp, wholePages } from "./bytes.js";

/** Allocations start at multiples of this, as on a GPU. */
export const POOL_UNIT_BYTES = 512;
export const POOL_HEADER_BYTES = 4096;
export const POOL_RECORD_BYTES = 16;

/** Where the data starts. `dataBytes` is a multiple of the unit. */
export function poolDataStart(dataBytes: number): number {
  return wholePages(POOL_HEADER_BYTES + (dataBytes / POOL_UNIT_BYTES) * POOL_RECORD_BYTES);
}

/** Bytes of the whole file of a pool of `maxBytes`. */
export function poolFileBytes(maxBytes: number): number {
  const dataBytes = roundUp(maxBytes, POOL_UNIT_BYTES);
  return poolDataStart(dataBytes) + dataBytes;
}
