/**
 * The layout of an array in memory: shape, strides and offset, and the check of a layout from
 * outside. Shapes and strides are in elements, outermost axis first. Strides may be negative.
 * Offsets are in bytes.
 */
import { CudaIpcError, messageOf } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { shownValue } from "../base/shown-value.js";
import { type DType, dtypeFacts, parseDType } from "./dtype.js";

export interface ArrayLayout {
  readonly dtype: DType;
  /** Elements along each axis. `[]` is one element. */
  readonly shape: readonly number[];
  /** Elements from one index of each axis to the next. */
  readonly strides: readonly number[];
  /** Bytes from the start of the memory to the element at index 0 of all axes. */
  readonly byteOffset: number;
}

/** The layout of an array in C order that starts at `byteOffset`. */
export function contiguousLayout(
  dtype: DType,
  shape: readonly number[],
  byteOffset = 0,
): ArrayLayout {
  return { dtype, shape, strides: contiguousStrides(shape), byteOffset };
}

/**
 * The number of elements of a shape: 1 for `[]`, 0 if an axis is 0.
 * @throws RangeError for an axis that is not an integer from 0, too many axes, or more than 2^53 -
 * 1 elements
 */
export function elementCount(shape: readonly number[]): number {
  // WHY an axis of 0 counts as 1 here: strides are products of axes, and must be exact too.
  let count = 1;
  let empty = false;
  if (!Array.isArray(shape)) {
    throw new TypeError(
      `shape must be an array of integers such as [2, 3], not ${shownValue(shape)}`,
    );
  }
  if (shape.length > limits.dimensionsMax) {
    throw new RangeError(
      `shape has ${shape.length} dimensions, the limit is ${limits.dimensionsMax}`,
    );
  }
  for (let axis = 0; axis < shape.length; axis += 1) {
    const size = shape[axis] as number;
    if (!Number.isSafeInteger(size) || size < 0) {
      const wanted = "must be an integer from 0 to 2^53 - 1";
      const message = `shape[${axis}] ${wanted}, not ${shownValue(size)}`;
      throw typeof size === "number" ? new RangeError(message) : new TypeError(message);
    }
    if (size === 0) empty = true;
    else count *= size;
    if (count > Number.MAX_SAFE_INTEGER)
      throw new RangeError(`shape [${shape.join(", ")}] has over 2^53 - 1 elements`);
  }
  return empty ? 0 : count;
}

/**
 * Bytes of an array of the shape without gaps. RangeError as `elementCount`, and for more than 2^53
 * - 1 bytes.
 */
export function arrayByteLength(dtype: DType, shape: readonly number[]): number {
  const byteLength = elementCount(shape) * dtypeFacts(dtype).byteSize;
  if (byteLength > Number.MAX_SAFE_INTEGER)
    throw new RangeError(`shape [${shape.join(", ")}] is over 2^53 - 1 bytes`);
  return byteLength;
}

/** Strides of C order, in elements (last axis fastest): `[2, 3, 4]` gives `[12, 4, 1]`. */
export function contiguousStrides(shape: readonly number[]): number[] {
  elementCount(shape);
  const strides = new Array<number>(shape.length);
  let stride = 1;
  for (let axis = shape.length - 1; axis >= 0; axis -= 1) {
    strides[axis] = stride;
    stride *= Math.max(1, shape[axis] as number);
  }
  return strides;
}

/** Strides of Fortran order, in elements (first axis fastest): `[2, 3, 4]` gives `[1, 2, 6]`. */
export function fortranStrides(shape: readonly number[]): number[] {
  return contiguousStrides(shape.toReversed()).reverse();
}

/**
 * Whether the elements are in C order without gaps. The stride of an axis of size 1 does not
 * matter.
 */
export function isContiguous(layout: ArrayLayout): boolean {
  if (layout.shape.includes(0)) return true;
  const wanted = contiguousStrides(layout.shape);
  return layout.shape.every((size, axis) => size === 1 || layout.strides[axis] === wanted[axis]);
}

/** Facts of a layout that are needed often. */
export interface LayoutFacts {
  readonly elementCount: number;
  /** Bytes of all elements together. Gaps between them do not count. */
  readonly byteLength: number;
  readonly isContiguous: boolean;
}

export function layoutFacts(layout: ArrayLayout): LayoutFacts {
  return {
    elementCount: elementCount(layout.shape),
    byteLength: arrayByteLength(layout.dtype, layout.shape),
    isContiguous: isContiguous(layout),
  };
}

export interface ByteSpan {
  /** The first byte that an element touches. */
  readonly low: number;
  /** One past the last byte that an element touches. Equal to `low` if there is no element. */
  readonly high: number;
}

/**
 * The bytes from the lowest to the highest element. `low` is negative if the layout leaves the
 * memory at its start.
 * @throws RangeError if they cannot be counted exactly
 */
export function byteSpan(layout: ArrayLayout): ByteSpan {
  const { byteSize } = dtypeFacts(layout.dtype);
  let low = layout.byteOffset;
  let high = layout.byteOffset;
  if (elementCount(layout.shape) === 0) return { low, high };
  for (let axis = 0; axis < layout.shape.length; axis += 1) {
    const reach =
      ((layout.shape[axis] as number) - 1) * (layout.strides[axis] as number) * byteSize;
    if (reach < 0) low += reach;
    else high += reach;
    if (!Number.isSafeInteger(low) || !Number.isSafeInteger(high)) {
      throw new RangeError(
        `axis ${axis} with stride ${layout.strides[axis]} reaches over 2^53 - 1 bytes`,
      );
    }
  }
  high += byteSize;
  if (!Number.isSafeInteger(high))
    throw new RangeError("the last element ends over 2^53 - 1 bytes");
  return { low, high };
}

/**
 * Accepts a layout only if all its elements are inside `availableBytes` bytes of memory and aligned
 * to the dtype. It is for layouts from peers, so it checks every field and its type. It also
 * refuses more bytes of elements than the memory has (strides of 0, overlaps), so a small memory
 * cannot claim a huge array.
 * @throws CudaIpcError `INVALID_DESCRIPTOR`; `UNSUPPORTED_DTYPE` for an unknown dtype
 */
export function checkLayout(layout: ArrayLayout, availableBytes: number): void {
  const { dtype, shape, strides, byteOffset } = layout;
  parseDType(dtype);
  if (!Array.isArray(shape) || !Array.isArray(strides))
    throw invalid("shape and strides must be arrays");
  if (shape.length !== strides.length)
    throw invalid(`${strides.length} strides for ${shape.length} dimensions`);
  if (!Number.isSafeInteger(byteOffset) || byteOffset < 0)
    throw invalid(`byteOffset is ${String(byteOffset)}`);
  if (!Number.isSafeInteger(availableBytes) || availableBytes < 0) {
    throw invalid(`memory of ${String(availableBytes)} bytes`);
  }
  // WHY an indexed loop: Array methods skip holes.
  for (let axis = 0; axis < strides.length && axis < limits.dimensionsMax; axis += 1) {
    if (!Number.isSafeInteger(strides[axis]))
      throw invalid(`strides[${axis}] is ${String(strides[axis])}`);
  }
  checkReach(layout, availableBytes);
}

function checkReach(layout: ArrayLayout, availableBytes: number): void {
  const { alignment } = dtypeFacts(layout.dtype);
  if (layout.byteOffset % alignment !== 0) {
    throw invalid(
      `byteOffset ${layout.byteOffset} is not aligned to the ${alignment} bytes of ${layout.dtype}`,
    );
  }
  let span: ByteSpan;
  let byteLength: number;
  try {
    byteLength = arrayByteLength(layout.dtype, layout.shape);
    span = byteSpan(layout);
  } catch (error) {
    throw invalid(messageOf(error), error);
  }
  if (span.low < 0 || span.high > availableBytes) {
    throw invalid(
      `it touches bytes ${span.low} to ${span.high}, memory has ${availableBytes} bytes`,
    );
  }
  if (byteLength > availableBytes) {
    throw invalid(`it claims ${byteLength} bytes of elements, memory has ${availableBytes} bytes`);
  }
}

function invalid(problem: string, cause?: unknown): CudaIpcError {
  return new CudaIpcError("INVALID_DESCRIPTOR", `Cannot accept array layout: ${problem}`, {
    cause,
  });
}
