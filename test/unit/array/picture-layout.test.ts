import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { contiguousLayout } from "../../../src/array/layout.js";
import { type PictureLayout, pictureLayout } from "../../../src/array/picture-layout.js";

function layoutOf(shape: number[], at: number[] = [], sideMax = 512): PictureLayout {
  const found = pictureLayout(contiguousLayout("uint8", shape), at, sideMax);
  assert.ok(typeof found !== "string", String(found));
  return found;
}

function refusal(...shape: number[]): unknown {
  return pictureLayout(contiguousLayout("uint8", shape), [], 512);
}

describe("pictureLayout", () => {
  it("takes every row and column of a small array, and every n-th of a large one", () => {
    const small = layoutOf([2, 5]);
    assert.deepEqual([small.height, small.width, small.step, small.channels], [2, 5, 1, 1]);
    const large = layoutOf([65_536, 60_000]);
    assert.deepEqual([large.height, large.width, large.step], [512, 469, 128]);
  });

  it("finds colours in the last axis and in the third from last", () => {
    for (const [shape, channels] of [
      [[8, 9, 3], 3],
      [[4, 8, 9], 4],
      [[8, 9, 1], 1],
    ] as const) {
      const { width, height, ...found } = layoutOf([...shape]);
      assert.deepEqual([height, width, found.channels, found.choices], [8, 9, channels, []]);
    }
    assert.deepEqual(layoutOf([3, 8, 9]).layout.strides, [9, 1, 72]);
    // Small matrices are no colours.
    assert.deepEqual(layoutOf([10, 4, 4]).choices, [10]);
    assert.deepEqual(layoutOf([3, 4, 5]).choices, [3]);
  });

  it("shows one index of each other axis", () => {
    const found = layoutOf([5, 6, 10, 20], [2, 99]);
    assert.deepEqual(
      [found.choices, found.at],
      [
        [5, 6],
        [2, 5],
      ],
    );
    assert.equal(found.layout.byteOffset, (2 * 6 + 5) * 200);
    assert.deepEqual(layoutOf([7, 3, 8, 8], [-1]).at, [0]);
    assert.deepEqual(layoutOf([7, 3, 8, 8]).channels, 3);
  });

  it("says why an array does not look like an image", () => {
    assert.equal(refusal(), "it has fewer than two axes");
    assert.equal(refusal(100), "it has fewer than two axes");
    assert.equal(refusal(0, 7), "it has no elements");
    assert.equal(refusal(1, 50), "1 x 50 elements are a line");
    assert.equal(refusal(2, 1000), "2 x 1000 elements are too long for a picture");
  });
});
