import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { byteSpan, contiguousLayout, elementCount } from "../../../src/array/layout.js";
import { transposeLayout } from "../../../src/array/layout-views.js";
import { sampleLayout } from "../../../src/array/sample-layout.js";
import { gatherElements } from "../../../src/array/strided-copy.js";

describe("sampleLayout", () => {
  it("is the array itself if it has few elements", () => {
    const layout = contiguousLayout("int16", [3, 4]);
    assert.equal(sampleLayout(layout, 12), layout);
  });

  it("takes runs of neighbours that are spread over the whole array", () => {
    const sample = sampleLayout(contiguousLayout("uint8", [2 ** 32]), 2 ** 18);
    assert.deepEqual(sample.shape, [256, 1024]);
    assert.deepEqual(sample.strides, [2 ** 24, 1]);
  });

  it("takes different elements of the array, and at least a quarter of what it may", () => {
    const shapes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1, maxLength: 3 });
    fc.assert(
      fc.property(shapes, fc.integer({ min: 1, max: 500 }), (shape, elementsMax) => {
        const whole = contiguousLayout("uint16", shape);
        const sample = sampleLayout(transposeLayout(whole), elementsMax);
        const count = elementCount(sample.shape);
        assert.ok(count <= elementsMax);
        assert.ok(4 * count >= Math.min(elementsMax, elementCount(shape)), `${count}`);
        const memory = new Uint8Array(byteSpan(whole).high);
        new Uint16Array(memory.buffer).forEach((_, i, words) => {
          words[i] = i;
        });
        const packed = new Uint8Array(2 * count);
        gatherElements(sample, { memory, packed });
        assert.equal(new Set(new Uint16Array(packed.buffer)).size, count);
      }),
    );
  });
});
