/**
 * Splits an array with any strides into parts that each span a bounded range of memory, so that a
 * device can move one range at a time. It splits along memory, not along the order of axes, so each
 * byte of a transposed array is also moved once.
 */
import { type ArrayLayout, arrayByteLength, byteSpan, contiguousStrides } from "./layout.js";

export interface BoundedPart {
  /** The part in memory. Its axes are in the order of memory, with the longest stride first. */
  readonly memory: ArrayLayout;
  /** The same elements, in the same order of axes, in the packed C-order copy. */
  readonly packed: ArrayLayout;
}

/**
 * Yields parts that span at most `spanBytesMax` bytes each, or a single element if even that spans
 * more.
 * @param gapBytesMax no part has more bytes than these between two of its elements, so a copy of a
 * whole part copies few bytes in vain
 */
export function* boundedParts(
  layout: ArrayLayout,
  spanBytesMax: number,
  gapBytesMax: number = Number.POSITIVE_INFINITY,
): Generator<BoundedPart, void, undefined> {
  if (arrayByteLength(layout.dtype, layout.shape) === 0) return;
  const { dtype, shape, strides, byteOffset } = layout;
  const packedStrides = contiguousStrides(shape);
  const axes = shape
    .map((size, axis) => ({
      size,
      memory: strides[axis] as number,
      packed: packedStrides[axis] as number,
    }))
    .sort((a, b) => Math.abs(b.memory) - Math.abs(a.memory));
  const ordered = axes.map(({ size }) => size);
  const memory = { dtype, shape: ordered, strides: axes.map((axis) => axis.memory), byteOffset };
  const packed = { dtype, shape: ordered, strides: axes.map((axis) => axis.packed), byteOffset: 0 };
  yield* halves({ memory, packed }, spanBytesMax, gapBytesMax);
}

function* halves(
  part: BoundedPart,
  spanBytesMax: number,
  gapBytesMax: number,
): Generator<BoundedPart, void, undefined> {
  const { low, high } = byteSpan(part.memory);
  const axis = part.memory.shape.findIndex((size) => size > 1);
  const fits = high - low <= spanBytesMax && widestGapBytes(part.memory) <= gapBytesMax;
  if (fits || axis < 0) {
    yield part;
    return;
  }
  const size = part.memory.shape[axis] as number;
  const half = Math.floor(size / 2);
  const cut = (start: number, length: number): BoundedPart => ({
    memory: alongAxis(part.memory, axis, start, length),
    packed: alongAxis(part.packed, axis, start, length),
  });
  yield* halves(cut(0, half), spanBytesMax, gapBytesMax);
  yield* halves(cut(half, size - half), spanBytesMax, gapBytesMax);
}

/** The most bytes between two neighbours along any axis. */
function widestGapBytes({ dtype, shape, strides }: ArrayLayout): number {
  const elementBytes = arrayByteLength(dtype, []);
  let widest = 0;
  let spanBytes = elementBytes;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    const steps = (shape[axis] as number) - 1;
    if (steps === 0) continue;
    const strideBytes = Math.abs(strides[axis] as number) * elementBytes;
    widest = Math.max(widest, strideBytes - spanBytes);
    spanBytes += steps * strideBytes;
  }
  return widest;
}

function alongAxis(layout: ArrayLayout, axis: number, start: number, length: number): ArrayLayout {
  const step = (layout.strides[axis] as number) * arrayByteLength(layout.dtype, []);
  return {
    ...layout,
    shape: layout.shape.map((size, index) => (index === axis ? length : size)),
    byteOffset: layout.byteOffset + start * step,
  };
}
