import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { boundedParts } from "../../../src/array/bounded-parts.js";
import { arrayByteLength, byteSpan, contiguousLayout } from "../../../src/array/layout.js";
import { sliceLayout, transposeLayout } from "../../../src/array/layout-views.js";
import { gatherElements, scatterElements } from "../../../src/array/strided-copy.js";

/** Views of a small array, with any order of axes and any steps, negative ones too. */
const views = fc
  .record({
    shape: fc.array(fc.integer({ min: 0, max: 6 }), { minLength: 1, maxLength: 4 }),
    steps: fc.array(fc.constantFrom(-3, -1, 1, 2), { minLength: 4, maxLength: 4 }),
    order: fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4 }),
  })
  .map(({ shape, steps, order }) => {
    const whole = contiguousLayout("int16", shape);
    const sliced = sliceLayout(
      whole,
      shape.map((_, axis) => ({ step: steps[axis] as number })),
    );
    const axes = order.filter((axis) => axis < shape.length);
    return { byteLength: arrayByteLength("int16", shape), layout: transposeLayout(sliced, axes) };
  });

describe("boundedParts", () => {
  it("covers each element once, in parts of the requested size", () => {
    fc.assert(
      fc.property(
        views,
        fc.integer({ min: 1, max: 64 }),
        fc.option(fc.nat({ max: 16 }), { nil: undefined }),
        ({ byteLength, layout }, spanBytesMax, gapBytesMax) => {
          const memory = Uint8Array.from({ length: byteLength }, (_, index) => index % 251);
          const expected = new Uint8Array(arrayByteLength(layout.dtype, layout.shape));
          gatherElements(layout, { memory, packed: expected });

          const target = new Uint8Array(expected.byteLength);
          let moved = 0;
          for (const part of boundedParts(layout, spanBytesMax, gapBytesMax)) {
            const { low, high } = byteSpan(part.memory);
            const elements = part.memory.shape.reduce((product, size) => product * size, 1);
            assert.ok(high - low <= spanBytesMax || elements === 1);
            const packed = new Uint8Array(arrayByteLength(layout.dtype, part.memory.shape));
            gatherElements(part.memory, { memory, packed });
            scatterElements(part.packed, { memory: target, packed });
            moved += packed.byteLength;
          }
          assert.equal(moved, expected.byteLength);
          assert.deepEqual(target, expected);
        },
      ),
      { numRuns: 500 },
    );
  });

  it("moves a transposed array's memory once, not once per row", () => {
    const layout = transposeLayout(contiguousLayout("float32", [512, 512]));
    let spans = 0;
    for (const { memory } of boundedParts(layout, 64 * 1024))
      spans += byteSpan(memory).high - byteSpan(memory).low;
    assert.equal(spans, 512 * 512 * 4);
  });

  it("leaves out gaps that are longer than allowed", () => {
    const rows = sliceLayout(contiguousLayout("uint8", [100, 1000]), [{ step: 10 }, { step: 2 }]);
    const spans = (gapBytesMax: number) =>
      [...boundedParts(rows, 1e6, gapBytesMax)].map(({ memory }) => {
        const { low, high } = byteSpan(memory);
        return high - low;
      });
    assert.deepEqual(spans(9001), [9 * 10_000 + 999]);
    assert.deepEqual(spans(9000), Array(10).fill(999));
  });
});
