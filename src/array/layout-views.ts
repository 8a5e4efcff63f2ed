/** Views of the same memory: slices, reshapes and transposes as in numpy, and never a copy. */
import { aNumber, optionsOf } from "../base/option-checks.js";
import { shownValue } from "../base/shown-value.js";
import { coalescedAxes } from "./coalesced-axes.js";
import { dtypeFacts } from "./dtype.js";
import { type ArrayLayout, contiguousStrides, elementCount } from "./layout.js";

/**
 * The indices `start`, `start + step`, ... before `stop`. Negative indices count from the end. `{}`
 * is the whole axis.
 */
export interface SliceRange {
  readonly start?: number | undefined;
  readonly stop?: number | undefined;
  /** Not 0. Default: 1. Negative steps go backwards: `{ step: -1 }` reverses the axis. */
  readonly step?: number | undefined;
}

const checkRange = optionsOf<SliceRange>("slice()", {
  start: aNumber,
  stop: aNumber,
  step: aNumber,
});

/**
 * Selects a part of an array, with one range per axis from the first axis on. Other axes are whole.
 * A number selects one index and drops the axis. As in numpy, ranges past the end are cut, and an
 * empty result is valid.
 * @throws RangeError for a single index out of range, a step of 0, too many ranges, or a value that
 * is not an integer
 */
export function sliceLayout(
  layout: ArrayLayout,
  ranges: readonly (number | SliceRange)[],
): ArrayLayout {
  if (ranges.length > layout.shape.length) {
    throw new RangeError(
      `Cannot slice: ${ranges.length} ranges for ${layout.shape.length} dimensions`,
    );
  }
  const shape: number[] = [];
  const strides: number[] = [];
  let elementOffset = 0;
  for (let axis = 0; axis < layout.shape.length; axis += 1) {
    const size = layout.shape[axis] as number;
    const stride = layout.strides[axis] as number;
    const range = axis < ranges.length ? ranges[axis] : {};
    if (typeof range === "number") {
      elementOffset += singleIndex(axis, size, range) * stride;
    } else {
      const { start, length, step } = selectedIndices(axis, size, range);
      elementOffset += start * stride;
      shape.push(length);
      strides.push(stride * step);
    }
  }
  // WHY the offset stays if there are no elements: the indices of other axes could move it out of
  // the memory.
  if (shape.includes(0))
    return { dtype: layout.dtype, shape, strides, byteOffset: layout.byteOffset };
  const byteOffset = layout.byteOffset + elementOffset * dtypeFacts(layout.dtype).byteSize;
  return { dtype: layout.dtype, shape, strides, byteOffset };
}

function singleIndex(axis: number, size: number, index: number): number {
  const fromStart = index < 0 ? index + size : index;
  if (!Number.isSafeInteger(index) || fromStart < 0 || fromStart >= size) {
    throw new RangeError(
      `Cannot slice: index ${index} is outside of axis ${axis} with ${size} elements`,
    );
  }
  return fromStart;
}

function selectedIndices(
  axis: number,
  size: number,
  range: SliceRange | undefined,
): { readonly start: number; readonly length: number; readonly step: number } {
  if (typeof range !== "object" || range === null || Array.isArray(range)) {
    const wanted = "a number or { start, stop, step }";
    throw new TypeError(
      `Cannot slice: range of axis ${axis} must be ${wanted}, not ${shownValue(range)}`,
    );
  }
  checkRange(range);
  for (const [name, value] of Object.entries({
    start: range.start,
    stop: range.stop,
    step: range.step,
  })) {
    if (value !== undefined && !Number.isSafeInteger(value)) {
      throw new RangeError(
        `Cannot slice: ${name} of axis ${axis} must be an integer, not ${String(value)}`,
      );
    }
  }
  const step = range.step ?? 1;
  if (step === 0) throw new RangeError(`Cannot slice: step of axis ${axis} must not be 0`);

  // A backward range may stop before the first element, and its last valid start is size - 1.
  const [lowest, highest] = step > 0 ? [0, size] : [-1, size - 1];
  const position = (value: number | undefined, otherwise: number): number =>
    value === undefined
      ? otherwise
      : Math.min(Math.max(value < 0 ? value + size : value, lowest), highest);
  const start = position(range.start, step > 0 ? lowest : highest);
  const stop = position(range.stop, step > 0 ? highest : lowest);
  const length = Math.max(0, Math.ceil((stop - start) / step));
  // WHY 1 for a step that is never taken: a huge step would give an inexact stride.
  return { start, length, step: length <= 1 ? 1 : step };
}

/**
 * The same elements in C order in another shape. One axis may be -1 and is then computed. It works
 * for contiguous arrays, and for others if numpy can make a view.
 * @throws RangeError if the shape has another number of elements; TypeError if only a copy could
 * have that shape
 */
export function reshapeLayout(layout: ArrayLayout, shape: readonly number[]): ArrayLayout {
  refuseArray("reshape", shape);
  const count = elementCount(layout.shape);
  const resolved = resolveShape(count, shape);
  if (count === 0) return { ...layout, shape: resolved, strides: contiguousStrides(resolved) };

  const strides = new Array<number>(resolved.length);
  const axes = coalescedAxes(layout);
  // From the innermost axis outwards, new axes must divide each regular step of the old layout
  // without a remainder.
  let axis = axes.pop();
  let stride = axis?.stride ?? 1;
  let remaining = axis?.size ?? 1;
  for (let i = resolved.length - 1; i >= 0; i -= 1) {
    const size = resolved[i] as number;
    if (remaining === 1 && size > 1) {
      axis = axes.pop();
      stride = axis?.stride ?? 1;
      remaining = axis?.size ?? 1;
    }
    if (remaining % size !== 0) throw copyNeeded(layout, resolved);
    strides[i] = stride;
    stride *= size;
    remaining /= size;
  }
  return { ...layout, shape: resolved, strides };
}

/** @throws TypeError for `reshape([2, 3])`, a likely slip in JavaScript */
function refuseArray(call: string, values: readonly unknown[]): void {
  const [first] = values;
  if (!Array.isArray(first)) return;
  const shown = shownValue(first);
  throw new TypeError(
    `${call}() takes numbers: ${call}(${first.join(", ")}), not ${call}(${shown})`,
  );
}

function copyNeeded(layout: ArrayLayout, shape: readonly number[]): TypeError {
  return new TypeError(
    `Cannot reshape [${layout.shape.join(", ")}] to [${shape.join(", ")}]: ` +
      `elements with strides [${layout.strides.join(", ")}] would have to be copied into ` +
      "a contiguous array first",
  );
}

function resolveShape(count: number, shape: readonly number[]): number[] {
  const unknownAxis = shape.indexOf(-1);
  if (unknownAxis !== shape.lastIndexOf(-1))
    throw new RangeError("Cannot reshape: only one axis may be -1");
  const resolved = [...shape];
  if (unknownAxis >= 0) {
    const known = elementCount(shape.toSpliced(unknownAxis, 1));
    if (known === 0 || count % known !== 0) {
      throw new RangeError(
        `Cannot reshape ${count} elements to [${shape.join(", ")}]: no size fits the axis of -1`,
      );
    }
    resolved[unknownAxis] = count / known;
  }
  const found = elementCount(resolved);
  if (found !== count) {
    throw new RangeError(
      `Cannot reshape ${count} elements to [${shape.join(", ")}], which has ${found}`,
    );
  }
  return resolved;
}

/**
 * Reorders the axes: axis `i` of the result is axis `axes[i]`. Without `axes` their order is
 * reversed.
 * @throws RangeError unless `axes` names each axis once (negative ones count from the end)
 */
export function transposeLayout(layout: ArrayLayout, axes?: readonly number[]): ArrayLayout {
  if (axes !== undefined) refuseArray("transpose", axes);
  const rank = layout.shape.length;
  const order =
    axes?.map((axis) => (axis < 0 ? axis + rank : axis)) ??
    layout.shape.map((_, i) => rank - 1 - i);
  const each = new Set(order);
  if (
    order.length !== rank ||
    each.size !== rank ||
    order.some((axis) => layout.shape[axis] === undefined)
  ) {
    throw new RangeError(
      `Cannot transpose: axes [${axes?.join(", ")}] must be each of ${rank} axes once`,
    );
  }
  return {
    ...layout,
    shape: order.map((axis) => layout.shape[axis] as number),
    strides: order.map((axis) => layout.strides[axis] as number),
  };
}
