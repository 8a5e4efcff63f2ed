/**
 * The axes of a layout with those merged that together are one regular step: what copying and reshaping work on.
 */
import type { ArrayLayout } from "./layout.js";

export interface Axis {
  readonly size: number;
  /** Elements from one index to the next. */
  readonly stride: number;
}

/**
 * The fewest axes, outermost first, that visit the same elements in the same (C) order.
 * Axes of size 1 are gone; a contiguous array is one axis of stride 1; a single element is `[]`.
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
 * Calls `visit` with the offset, in elements from the layout's first, of every combination of indices, in C order.
 * No axes is one combination; an axis of size 0 is none.
 */
export function forEachOffset(axes: readonly Axis[], visit: (offset: number) => void): void {
  for (const offset of offsets(axes)) visit(offset);
}

/** As `forEachOffset`, one at a time. */
export function* offsets(axes: readonly Axis[]): Generator<number, void, undefined> {
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
