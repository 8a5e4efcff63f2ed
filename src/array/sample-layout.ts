/** An evenly spread sample of an array, as a layout of the same memory. */
import { coalescedAxes } from "./coalesced-axes.js";
import { type ArrayLayout, elementCount } from "./layout.js";

/** Neighbours that stay together, because a range of memory is read faster than single elements. */
const RUN_ELEMENTS = 1024;

/**
 * Selects at most `elementsMax` elements: the array itself if it has no more, and otherwise runs of
 * neighbours, spread over all axes.
 */
export function sampleLayout(layout: ArrayLayout, elementsMax: number): ArrayLayout {
  if (elementCount(layout.shape) <= elementsMax) return layout;
  const axes = coalescedAxes(layout).sort((a, b) => Math.abs(b.stride) - Math.abs(a.stride));
  const inner = axes.at(-1);
  if (inner !== undefined && inner.size > RUN_ELEMENTS) {
    // Elements after the last whole run are never in the sample.
    const runs = Math.floor(inner.size / RUN_ELEMENTS);
    axes.splice(-1, 1, { size: runs, stride: inner.stride * RUN_ELEMENTS });
    axes.push({ size: RUN_ELEMENTS, stride: inner.stride });
  }
  for (;;) {
    const count = axes.reduce((product, { size }) => product * size, 1);
    if (count <= elementsMax) break;
    // The runs of neighbours are halved last.
    const spread = axes.length > 1 ? axes.slice(0, -1) : axes;
    const thinned = spread.some(({ size }) => size > 1) ? spread : axes;
    const longest = thinned.reduce((one, other) => (other.size > one.size ? other : one));
    axes[axes.indexOf(longest)] = halfOf(longest);
  }
  const shape = axes.map(({ size }) => size);
  return { ...layout, shape, strides: axes.map(({ stride }) => stride) };
}

function halfOf({ size, stride }: { readonly size: number; readonly stride: number }) {
  return { size: Math.ceil(size / 2), stride: 2 * stride };
}
