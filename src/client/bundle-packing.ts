/** Where each array of a bundle lies: in the given order, each aligned so that a GPU reads it in full-width transactions. */

import { type DType, parseDType } from "../array/dtype.js";
import { type ArrayLayout, arrayByteLength, contiguousLayout } from "../array/layout.js";
import { roundUp } from "../base/bytes.js";
import type { ArrayOptions } from "../gpu/device-array.js";

/** What cudaMalloc guarantees, and so what kernels may count on. */
const ALIGNMENT_BYTES = 256;

export function packBundle(arrays: ReadonlyMap<string, ArrayOptions<DType>>): {
  readonly layouts: Map<string, ArrayLayout>;
  readonly byteLength: number;
} {
  const layouts = new Map<string, ArrayLayout>();
  let byteLength = 0;
  for (const [name, { dtype, shape }] of arrays) {
    const byteOffset = roundUp(byteLength, ALIGNMENT_BYTES);
    layouts.set(name, contiguousLayout(parseDType(dtype), [...shape], byteOffset));
    byteLength = byteOffset + arrayByteLength(dtype, shape);
  }
  return { layouts, byteLength };
}
