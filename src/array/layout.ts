/**
 * Where the elements of an array lie in memory: shape, strides and offset, and the check of a layout from outside.
 * Shapes are in elements, outermost axis first; strides are in elements and may be negative; offsets are in bytes.
 */
import { CudaIpcError, messageOf } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { shownValue } from "../base/shown-value.js";
import { type DType, dtypeFacts, parseDType } from "./dtype.js";

export interface ArrayLayout {
  readonly dtype: DType;
  /** Elements along each axis; `[]` is one element. */
  readonly shape: readonly number[];
  /** Elements from one index of the axis to the next; as many as `shape`. */
  readonly strides: readonly number[];
  /** Bytes from the start of the memory to the element whose indices are all 0. */
  readonly byteOffset: number;
}

/** The layout of an array in C order that starts at `byteOffset`. */
export function contiguousLayout(dtype: DType, shape: readonly number[], byteOffset = 0): ArrayLayout {
  return { dtype, shape, strides: contiguousStrides(shape), byteOffset };
}

/**
 * Elements of an array of the shape; 1 for `[]`, 0 when an axis is 0.
 * @throws RangeError for an axis that is no integer from 0, too many axes, or a count over 2^53 - 1
 */
export function elementCount(shape: readonly number[]): number {
  // WHY: an axis of 0 counts as 1 for the limit, so that strides, which are products of axes, are exact too.
  let count = 1;
  let empty = false;
  if (!Array.isArray(shape)) {
    throw new TypeError(`shape must be an array of integers such as [2, 3], not ${shownValue(shape)}`);
  }
  if (shape.length > limits.dimensionsMax) {
    throw new RangeError(`shape has ${shape.length} dimensions, the limit is ${limits.dimensionsMax}`);
  }
  for (let axis = 0; axis < shape.length; axis += 1) {
    const size = shape[axis] as number;
    if (!Number.isSafeInteger(size) || size < 0) {
      const message = `shape[${axis}] must be an integer from 0 to 2^53 - 1, not ${shownValue(size)}`;
      throw typeof size === "number" ? new RangeError(message) : new TypeError(message);
    }
    if (size === 0) empty = true;
    else count *= size;
    if (count > Number.MAX_SAFE_INTEGER) throw new RangeError(`shape [${shape.join(", ")}] has over 2^53 - 1 elements`);
  }
  return empty ? 0 : count;
}

/** Bytes of an array of the shape without gaps; RangeError as `elementCount`, and for more than 2^53 - 1. */
export function arrayByteLength(dtype: DType, shape: readonly number[]): number {
  const byteLength = elementCount(shape) * dtypeFacts(dtype).byteSize;
  if (byteLength > Number.MAX_SAFE_INTEGER) throw new RangeError(`shape [${shape.join(", ")}] is over 2^53 - 1 bytes`);
  return byteLength;
}

/** Strides in elements of C order (last axis fastest): `[2, 3, 4]` gives `[12, 4, 1]`. */
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

/** Strides in elements of Fortran order (first axis fastest): `[2, 3, 4]` gives `[1, 2, 6]`. */
export function fortranStrides(shape: readonly number[]): number[] {
  return contiguousStrides(shape.toReversed()).reverse();
}

/** True where the elements lie in C order without gaps. The stride of an axis of size 1 does not matter. */
export function isContiguous(layout: ArrayLayout): boolean {
  if (layout.shape.includes(0)) return true;
  const wanted = contiguousStrides(layout.shape);
  return layout.shape.every((size, axis) => size === 1 || layout.strides[axis] === wanted[axis]);
}

/** What is asked of a layout again and again. */
export interface LayoutFacts {
  readonly elementCount: number;
  /** Of the elements, without gaps between them. */
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
  /** One past the last byte that an element touches; equal to `low` when there is no element. */
  readonly high: number;
}

/**
 * The bytes between the lowest and the highest element. `low` is negative when the layout leaves the memory at its start.
 * @throws RangeError when they cannot be counted exactly
 */
export function byteSpan(layout: ArrayLayout): ByteSpan {
  const { byteSize } = dtypeFacts(layout.dtype);
  let low = layout.byteOffset;
  let high = layout.byteOffset;
  if (elementCount(layout.shape) === 0) return { low, high };
  for (let axis = 0; axis < layout.shape.length; axis += 1) {
    const reach = ((layout.shape[axis] as number) - 1) * (layout.strides[axis] as number) * byteSize;
    if (reach < 0) low += reach;
    else high += reach;
    if (!Number.isSafeInteger(low) || !Number.isSafeInteger(high)) {
      throw new RangeError(`axis ${axis} with stride ${layout.strides[axis]} reaches over 2^53 - 1 bytes`);
    }
  }
  high += byteSize;
  if (!Number.isSafeInteger(high)) throw new RangeError("the last element ends over 2^53 - 1 bytes");
  return { low, high };
}

/**
 * Accepts a layout only if every element of it lies in `availableBytes` bytes of memory, aligned to its dtype.
 * For layouts from peers: no field is believed, not even its type. A layout with more bytes of elements than the memory
 * has (strides of 0, overlapping elements) is refused too, so that a small memory cannot claim a huge array.
 * @throws CudaIpcError `INVALID_DESCRIPTOR`; `UNSUPPORTED_DTYPE` for a dtype that is not known here
 */
export function checkLayout(layout: ArrayLayout, availableBytes: number): void {
  const { dtype, shape, strides, byteOffset } = layout;
  parseDType(dtype);
  if (!Array.isArray(shape) || !Array.isArray(strides)) throw invalid("shape and strides must be arrays");
  if (shape.length !== strides.length) throw invalid(`${strides.length} strides for ${shape.length} dimensions`);
  if (!Number.isSafeInteger(byteOffset) || byteOffset < 0) throw invalid(`byteOffset is ${String(byteOffset)}`);
  if (!Number.isSafeInteger(availableBytes) || availableBytes < 0) {
    throw invalid(`memory of ${String(availableBytes)} bytes`);
  }
  // WHY: a loop over indices, because methods of Array skip holes.
  for (let axis = 0; axis < strides.length && axis < limits.dimensionsMax; axis += 1) {
    if (!Number.isSafeInteger(strides[axis])) throw invalid(`strides[${axis}] is ${String(strides[axis])}`);
  }
  checkReach(layout, availableBytes);
}

function checkReach(layout: ArrayLayout, availableBytes: number): void {
  const { alignment } = dtypeFacts(layout.dtype);
  if (layout.byteOffset % alignment !== 0) {
    throw invalid(`byteOffset ${layout.byteOffset} is not aligned to the ${alignment} bytes of ${layout.dtype}`);
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
    throw invalid(`it touches bytes ${span.low} to ${span.high}, memory has ${availableBytes} bytes`);
  }
  if (byteLength > availableBytes) {
    throw invalid(`it claims ${byteLength} bytes of elements, memory has ${availableBytes} bytes`);
  }
}

function invalid(problem: string, cause?: unknown): CudaIpcError {
  return new CudaIpcError("INVALID_DESCRIPTOR", `Cannot accept array layout: ${problem}`, { cause });
}
