/**
 * The stretches of memory without gaps that make up an array, in C order: what a device layer turns into copies.
 */
import { coalescedAxes, offsets } from "./coalesced-axes.js";
import { dtypeFacts } from "./dtype.js";
import { type ArrayLayout, elementCount } from "./layout.js";

export interface ContiguousRun {
  /** Bytes from the start of the memory. */
  readonly byteOffset: number;
  readonly byteLength: number;
}

/**
 * Runs in the order in which their bytes follow one another in the contiguous copy of the array.
 * Neighbours that touch are one run; a contiguous array is one, an empty array none.
 * An array of strided single elements has as many runs as elements: ask `regularRunBytes` before walking.
 */
export function* contiguousRuns(layout: ArrayLayout): Generator<ContiguousRun, void, undefined> {
  const { byteSize } = dtypeFacts(layout.dtype);
  const axes = coalescedAxes(layout);
  const runBytes = regularRunElements(layout) * byteSize;
  if (runBytes === 0) return;
  if (axes.at(-1)?.stride === 1) axes.pop();

  let start = 0;
  let byteLength = 0;
  for (const offset of offsets(axes)) {
    const byteOffset = layout.byteOffset + offset * byteSize;
    if (byteLength > 0 && byteOffset === start + byteLength) {
      byteLength += runBytes;
    } else {
      if (byteLength > 0) yield { byteOffset: start, byteLength };
      start = byteOffset;
      byteLength = runBytes;
    }
  }
  yield { byteOffset: start, byteLength };
}

/**
 * Bytes of each run before neighbours are merged, known without walking; 0 for an empty array.
 * The array has at most its bytes divided by this many runs.
 */
export function regularRunBytes(layout: ArrayLayout): number {
  return regularRunElements(layout) * dtypeFacts(layout.dtype).byteSize;
}

function regularRunElements(layout: ArrayLayout): number {
  if (elementCount(layout.shape) === 0) return 0;
  const inner = coalescedAxes(layout).at(-1);
  return inner?.stride === 1 ? inner.size : 1;
}
