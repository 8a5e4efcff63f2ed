/**
 * Merges the axes of a layout that form one regular step, and walks what is left: by element
 * offset, or by contiguous run.
 */
import { dtypeFacts } from "./dtype.js";
import { type ArrayLayout, elementCount } from "./layout.js";

export interface Axis {
  readonly size: number;
  /** Elements from one index to the next. */
  readonly stride: number;
}

/**
 * The fewest axes, outermost first, that visit the same elements in C order. Axes of size 1
 * disappear. A contiguous array is one axis of stride 1, and a single element is `[]`.
 */
export function coalescedAxes(layout: Pick<ArrayLayout, "shape" | "strides">): Axis[] {
  const axes: Axis[] = [];
  for (let i = 0; i < layout.shape.length; i += 1) {
    const inner: Axis = { size: layout.shape[i] as number, stride: layout.strides[i] as number };
    if (inner.size === 1) continue;
    const outer = axes.at(-1);
    if (outer !== undefined && outer.stride === inner.size * inner.stride) {
      axes[axes.length - 1] = { size: outer.size * inner.size, stride: inner.stride };
    } else {
      axes.push(inner);
    }
  }
  return axes;
}

/**
 * Calls `visit` with the offset of every combination of indices in C order, in elements from the
 * layout's first element. No axes give one combination, and an axis of size 0 gives none.
 */
export function forEachOffset(axes: readonly Axis[], visit: (offset: number) => void): void {
  for (const offset of offsets(axes)) visit(offset);
}

/** Like `forEachOffset`, as a generator. */
function* offsets(axes: readonly Axis[]): Generator<number, void, undefined> {
  if (axes.some((axis) => axis.size === 0)) return;
  const index = new Array<number>(axes.length).fill(0);
  let offset = 0;
  for (;;) {
    yield offset;
    let i = axes.length - 1;
    for (; i >= 0; i -= 1) {
      const axis = axes[i] as Axis;
      const next = (index[i] as number) + 1;
      if (next < axis.size) {
        index[i] = next;
        offset += axis.stride;
        break;
      }
      offset -= axis.stride * (axis.size - 1);
      index[i] = 0;
    }
    if (i < 0) return;
  }
}

export interface ContiguousRun {
  /** Bytes from the start of the memory. */
  readonly byteOffset: number;
  readonly byteLength: number;
}

/**
 * Yields the runs of memory without gaps, in the order of their bytes in the contiguous copy.
 * Adjacent runs are merged: a contiguous array is one run, an empty array none. An array of strided
 * single elements has one run per element, so check `regularRunBytes` first.
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
 * Bytes of each run before adjacent runs are merged; 0 for an empty array. The array has at most
 * its bytes divided by this many runs.
 */
export function regularRunBytes(layout: ArrayLayout): number {
  return regularRunElements(layout) * dtypeFacts(layout.dtype).byteSize;
}

function regularRunElements(layout: ArrayLayout): number {
  if (elementCount(layout.shape) === 0) return 0;
  const inner = coalescedAxes(layout).at(-1);
  return inner?.stride === 1 ? inner.size : 1;
}
