import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { contiguousRuns } from "../../../src/array/coalesced-axes.js";
import { type DType, dtypeFacts, dtypeNames } from "../../../src/array/dtype.js";
import {
  type ArrayLayout,
  byteSpan,
  checkLayout,
  contiguousLayout,
  elementCount,
  isContiguous,
} from "../../../src/array/layout.js";
import {
  reshapeLayout,
  type SliceRange,
  sliceLayout,
  transposeLayout,
} from "../../../src/array/layout-views.js";
import { gatherElements, scatterElements } from "../../../src/array/strided-copy.js";

/** The model: the byte offsets of the elements in C order, computed from their indices. */
function offsetsOf({ dtype, shape, strides, byteOffset }: ArrayLayout): number[] {
  let found = [byteOffset];
  shape.forEach((size, axis) => {
    const step = strides[axis]! * dtypeFacts(dtype).byteSize;
    found = found.flatMap((offset) =>
      Array.from({ length: size }, (_, index) => offset + index * step),
    );
  });
  return found;
}

type Nested = number | Nested[];

/** The model of a slice: nested JavaScript arrays of byte offsets. */
function nested(offsets: number[], shape: readonly number[]): Nested {
  if (shape.length === 0) return offsets[0]!;
  const inner = elementCount(shape.slice(1));
  return Array.from({ length: shape[0]! }, (_, i) =>
    nested(offsets.slice(i * inner, (i + 1) * inner), shape.slice(1)),
  );
}

/** The elements that Python's slice(start, stop, step) selects, step by step. */
function naiveSlice(list: Nested[], { start, stop, step = 1 }: SliceRange): Nested[] {
  const beforeAll = step > 0 ? 0 : -1;
  const place = (position: number) =>
    position < 0 ? Math.max(position + list.length, beforeAll) : position;
  const from = start === undefined ? (step > 0 ? 0 : list.length - 1) : place(start);
  const to = stop === undefined ? (step > 0 ? list.length : -1) : place(stop);
  const found: Nested[] = [];
  for (
    let i = step < 0 ? Math.min(from, list.length - 1) : from;
    step > 0 ? i < to : i > to;
    i += step
  ) {
    if (i < list.length) found.push(list[i]!);
  }
  return found;
}

function naiveSliceAll(value: Nested, ranges: readonly (number | SliceRange)[]): Nested {
  const [range, ...rest] = ranges;
  if (range === undefined || typeof value === "number") return value;
  if (typeof range === "number")
    return naiveSliceAll(value[range < 0 ? range + value.length : range]!, rest);
  return naiveSlice(value, range).map((item) => naiveSliceAll(item, rest));
}

const dtypes = fc.constantFrom<DType>(...dtypeNames);
const shapes = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 4 });

const rangesFor = (shape: readonly number[]) =>
  fc.tuple(
    ...shape.map((size) => {
      const position = fc.option(fc.integer({ min: -size - 2, max: size + 2 }), { nil: undefined });
      const step = fc.option(
        fc.integer({ min: -3, max: 3 }).filter((value) => value !== 0),
        { nil: undefined },
      );
      const range = fc.record({ start: position, stop: position, step });
      return size === 0 ? range : fc.oneof(range, fc.integer({ min: -size, max: size - 1 }));
    }),
  );

/** A layout made by slices and a transpose of a contiguous one, and the size of its memory. */
const views = fc
  .tuple(dtypes, shapes)
  .chain(([dtype, shape]) =>
    fc.tuple(fc.constant(contiguousLayout(dtype, shape, 16)), rangesFor(shape)),
  )
  .chain(([whole, ranges]) => {
    const sliced = sliceLayout(whole, ranges);
    const axes = sliced.shape.map((_, i) => i);
    return fc.record({
      layout: fc
        .shuffledSubarray(axes, { minLength: axes.length })
        .map((order) => transposeLayout(sliced, order)),
      memoryBytes: fc.constant(byteSpan(whole).high),
    });
  });

describe("sliceLayout", () => {
  it("selects the same elements as slicing nested lists", () => {
    const cases = shapes.chain((shape) =>
      fc.tuple(fc.constant(contiguousLayout("int16", shape, 4)), rangesFor(shape)),
    );
    fc.assert(
      fc.property(cases, ([layout, ranges]) => {
        const sliced = sliceLayout(layout, ranges);
        const model = naiveSliceAll(nested(offsetsOf(layout), layout.shape), ranges);
        assert.deepEqual(nested(offsetsOf(sliced), sliced.shape), model);
        checkLayout(sliced, byteSpan(layout).high);
      }),
    );
  });
});

describe("transposeLayout", () => {
  it("is undone by the inverse order", () => {
    fc.assert(
      fc.property(views, fc.integer(), ({ layout }, seed) => {
        const axes = layout.shape
          .map((_, i) => i)
          .sort((a, b) => ((a * 7 + seed) % 5) - ((b * 7 + seed) % 5));
        const inverse = axes.map((_, i) => axes.indexOf(i));
        assert.deepEqual(transposeLayout(transposeLayout(layout, axes), inverse), layout);
      }),
    );
  });
});

/** Shapes of this many elements: divisors in any order, with ones between them. */
function shapesOf(count: number): fc.Arbitrary<number[]> {
  if (count === 0) return fc.constantFrom([0], [3, 0], [0, 2, 2], [1, 0, 1]);
  return fc.array(fc.integer({ min: 1, max: 6 }), { maxLength: 4 }).map((wanted) => {
    let rest = count;
    const shape = wanted.map((size) => {
      const taken = rest % size === 0 ? size : 1;
      rest /= taken;
      return taken;
    });
    return rest === 1 ? shape : [...shape, rest];
  });
}

/**
 * The strides by which a shape visits the offsets in order, if there are any. Found from the
 * offsets alone.
 */
function naiveStrides(
  offsets: readonly number[],
  shape: readonly number[],
  byteSize: number,
): number[] | undefined {
  const strides = shape.map((size, axis) => {
    const inner = elementCount(shape.slice(axis + 1));
    return size <= 1 ? 0 : (offsets[inner]! - offsets[0]!) / byteSize;
  });
  const layout = { dtype: "uint8", shape, strides, byteOffset: 0 } as const;
  const matches = offsetsOf(layout).every(
    (offset, i) => offset * byteSize === offsets[i]! - offsets[0]!,
  );
  return matches ? strides : undefined;
}

describe("reshapeLayout", () => {
  it("keeps the elements in order if a view can, otherwise says that a copy is needed", () => {
    const cases = views.chain(({ layout }) =>
      fc.tuple(fc.constant(layout), shapesOf(elementCount(layout.shape))),
    );
    fc.assert(
      fc.property(cases, ([layout, shape]) => {
        const offsets = offsetsOf(layout);
        if (naiveStrides(offsets, shape, dtypeFacts(layout.dtype).byteSize) === undefined) {
          assert.throws(() => reshapeLayout(layout, shape), TypeError);
        } else {
          const reshaped = reshapeLayout(layout, shape);
          assert.deepEqual(reshaped.shape, shape);
          assert.deepEqual(offsetsOf(reshaped), offsets);
        }
      }),
      { numRuns: 500 },
    );
  });
});

describe("isContiguous and contiguousRuns", () => {
  it("agree with the offsets of the elements", () => {
    fc.assert(
      fc.property(views, ({ layout }) => {
        const { byteSize } = dtypeFacts(layout.dtype);
        const offsets = offsetsOf(layout);
        const inOrder = offsets.every((offset, i) => offset === layout.byteOffset + i * byteSize);
        assert.equal(isContiguous(layout), inOrder);

        const runs = [...contiguousRuns(layout)];
        const covered = runs.flatMap(({ byteOffset, byteLength }) =>
          Array.from({ length: byteLength / byteSize }, (_, i) => byteOffset + i * byteSize),
        );
        assert.deepEqual(covered, offsets);
        for (let i = 1; i < runs.length; i += 1) {
          const before = runs[i - 1]!;
          assert.notEqual(
            before.byteOffset + before.byteLength,
            runs[i]!.byteOffset,
            "adjacent runs are merged",
          );
        }
      }),
    );
  });
});

describe("byteSpan", () => {
  it("is the lowest and the highest byte of all elements", () => {
    fc.assert(
      fc.property(views, ({ layout }) => {
        const offsets = offsetsOf(layout);
        if (offsets.length === 0) return;
        const high = Math.max(...offsets) + dtypeFacts(layout.dtype).byteSize;
        assert.deepEqual(byteSpan(layout), { low: Math.min(...offsets), high });
      }),
    );
  });
});

describe("gatherElements and scatterElements", () => {
  it("move exactly the bytes of the elements", () => {
    fc.assert(
      fc.property(
        views,
        fc.nat({ max: 7 }),
        fc.nat({ max: 7 }),
        ({ layout, memoryBytes }, shift, packedShift) => {
          const { byteSize } = dtypeFacts(layout.dtype);
          const memory = Uint8Array.from(
            { length: memoryBytes + shift },
            (_, i) => (i * 31) % 256,
          ).subarray(shift);
          const wanted = offsetsOf(layout).flatMap((offset) => [
            ...memory.subarray(offset, offset + byteSize),
          ]);
          const packed = new Uint8Array(wanted.length + packedShift).subarray(packedShift);
          gatherElements(layout, { memory, packed });
          assert.deepEqual([...packed], wanted);

          const target = new Uint8Array(memoryBytes + shift).subarray(shift);
          const model = new Uint8Array(memoryBytes);
          for (const offset of offsetsOf(layout)) {
            model.set(memory.subarray(offset, offset + byteSize), offset);
          }
          scatterElements(layout, { memory: target, packed });
          assert.deepEqual([...target], [...model]);
        },
      ),
    );
  });
});
