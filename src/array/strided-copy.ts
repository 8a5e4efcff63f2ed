/**
 * Copies between an array with any strides and its packed elements in C order, both in host memory.
 * It copies words of 1, 2 or 4 bytes as integers, because copying floats may change the bits of a
 * NaN.
 */
import { type Axis, coalescedAxes, forEachOffset } from "./coalesced-axes.js";
import { dtypeFacts } from "./dtype.js";
import { type ArrayLayout, arrayByteLength, byteSpan } from "./layout.js";

type Words = Uint8Array | Uint16Array | Uint32Array;

/**
 * Runs of at least this many bytes are copied with one call. For shorter ones the call costs more
 * than a loop.
 */
const RUN_BYTES_MIN = 128;

/** The two sides of a copy. They must not overlap. */
export interface StridedCopy {
  /**
   * The memory in which the layout's byteOffset counts. For a window of memory, subtract its start
   * from the offset.
   */
  readonly memory: Uint8Array;
  /** Exactly the elements, in C order without gaps. */
  readonly packed: Uint8Array;
}

/**
 * Fills `packed` with the elements that the layout selects in `memory`.
 * @throws RangeError if the layout leaves `memory`, or `packed` has another length than the
 * elements
 */
export function gatherElements(layout: ArrayLayout, views: StridedCopy): void {
  copyElements(layout, views, "gather");
}

/**
 * Writes the elements in `packed` to their positions in `memory`. Bytes between the elements do not
 * change.
 * @throws RangeError if the layout leaves `memory`, or `packed` has another length than the
 * elements
 */
export function scatterElements(layout: ArrayLayout, views: StridedCopy): void {
  copyElements(layout, views, "scatter");
}

function copyElements(
  layout: ArrayLayout,
  { memory, packed }: StridedCopy,
  direction: "gather" | "scatter",
): void {
  const byteLength = arrayByteLength(layout.dtype, layout.shape);
  const span = byteSpan(layout);
  if (packed.byteLength !== byteLength) {
    throw new RangeError(
      `Cannot ${direction} elements: found ${packed.byteLength} bytes, wanted ${byteLength}`,
    );
  }
  if (byteLength === 0) return;
  if (span.low < 0 || span.high > memory.byteLength) {
    throw new RangeError(
      `Cannot ${direction} elements: ` +
        `they touch bytes ${span.low} to ${span.high} of ${memory.byteLength}`,
    );
  }
  const { byteSize } = dtypeFacts(layout.dtype);
  const wordBytes = commonWordBytes(
    byteSize,
    memory.byteOffset + layout.byteOffset,
    packed.byteOffset,
  );
  const axes = wordAxes(layout, byteSize / wordBytes);
  const run = axes.at(-1)?.stride === 1 ? (axes.pop()?.size ?? 1) : 1;
  // WHY a shift: the typed array must begin at a byte that is aligned like the elements.
  const shift = layout.byteOffset % wordBytes;
  const strided = wordsOf(memory.subarray(shift), wordBytes);
  const first = (layout.byteOffset - shift) / wordBytes;
  const copy = direction === "gather" ? gatherRuns : scatterRuns;
  copy(
    { axes, run, first, useSet: run * wordBytes >= RUN_BYTES_MIN },
    strided,
    wordsOf(packed, wordBytes),
  );
}

interface Runs {
  /** In words. The innermost axis steps from run to run. */
  readonly axes: Axis[];
  /** Words of each run. */
  readonly run: number;
  /** Index of the first run's first word. */
  readonly first: number;
  readonly useSet: boolean;
}

function gatherRuns({ axes, run, first, useSet }: Runs, strided: Words, packed: Words): void {
  const { size, stride } = axes.pop() ?? { size: 1, stride: 0 };
  let to = 0;
  forEachOffset(axes, (offset) => {
    let from = first + offset;
    for (let i = 0; i < size; i += 1, from += stride) {
      if (useSet) packed.set(strided.subarray(from, from + run), to);
      else
        for (let word = 0; word < run; word += 1)
          packed[to + word] = strided[from + word] as number;
      to += run;
    }
  });
}

function scatterRuns({ axes, run, first, useSet }: Runs, strided: Words, packed: Words): void {
  const { size, stride } = axes.pop() ?? { size: 1, stride: 0 };
  let from = 0;
  forEachOffset(axes, (offset) => {
    let to = first + offset;
    for (let i = 0; i < size; i += 1, to += stride) {
      if (useSet) strided.set(packed.subarray(from, from + run), to);
      else
        for (let word = 0; word < run; word += 1)
          strided[to + word] = packed[from + word] as number;
      from += run;
    }
  });
}

/** The layout's axes in words, with the words of one element as the innermost axis. */
function wordAxes(layout: ArrayLayout, wordsPerElement: number): Axis[] {
  return coalescedAxes({
    shape: [...layout.shape, wordsPerElement],
    strides: [...layout.strides.map((stride) => stride * wordsPerElement), 1],
  });
}

/** The largest word that divides an element and to which both sides are aligned. */
function commonWordBytes(byteSize: number, stridedOffset: number, packedOffset: number): 1 | 2 | 4 {
  const fits = (wordBytes: number) =>
    byteSize % wordBytes === 0 && stridedOffset % wordBytes === 0 && packedOffset % wordBytes === 0;
  return fits(4) ? 4 : fits(2) ? 2 : 1;
}

function wordsOf(bytes: Uint8Array, wordBytes: 1 | 2 | 4): Words {
  const length = Math.floor(bytes.byteLength / wordBytes);
  if (wordBytes === 4) return new Uint32Array(bytes.buffer, bytes.byteOffset, length);
  if (wordBytes === 2) return new Uint16Array(bytes.buffer, bytes.byteOffset, length);
  return bytes;
}
