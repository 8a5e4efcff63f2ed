/** Places the arrays of a bundle: in the given order, aligned for full-width reads by a GPU. */
import { roundUp } from "../base/bytes.js";
import { type DType, parseDType } from "./dtype.js";
import { type ArrayLayout, arrayByteLength, contiguousLayout } from "./layout.js";

/** cudaMalloc aligns memory to this, and kernels rely on it. */
export const BUNDLE_ALIGNMENT_BYTES = 256;

interface PackedArray {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** @param startByteOffset where the memory of these arrays begins; `byteLength` is where it ends */
export function packBundle(
  arrays: ReadonlyMap<string, PackedArray>,
  startByteOffset = 0,
): { readonly layouts: Map<string, ArrayLayout>; readonly byteLength: number } {
  const layouts = new Map<string, ArrayLayout>();
  let byteLength = startByteOffset;
  for (const [name, { dtype, shape }] of arrays) {
    const byteOffset = roundUp(byteLength, BUNDLE_ALIGNMENT_BYTES);
    layouts.set(name, contiguousLayout(parseDType(dtype), [...shape], byteOffset));
    byteLength = byteOffset + arrayByteLength(dtype, shape);
  }
  return { layouts, byteLength };
}
