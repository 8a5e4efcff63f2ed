import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { contiguousLayout } from "../../../src/array/layout.js";
import { reshapeLayout, sliceLayout, transposeLayout } from "../../../src/array/layout-views.js";

const matrix = contiguousLayout("int32", [4, 6], 8);

describe("sliceLayout", () => {
  it("takes ranges, single indices and the whole of the rest", () => {
    assert.deepEqual(sliceLayout(matrix, [1]), {
      dtype: "int32",
      shape: [6],
      strides: [1],
      byteOffset: 8 + 24,
    });
    assert.deepEqual(sliceLayout(matrix, [-1, -1]), {
      dtype: "int32",
      shape: [],
      strides: [],
      byteOffset: 8 + 92,
    });
    assert.deepEqual(sliceLayout(matrix, [{ start: 1, stop: 3 }, { step: 2 }]), {
      dtype: "int32",
      shape: [2, 3],
      strides: [6, 2],
      byteOffset: 8 + 24,
    });
    assert.deepEqual(sliceLayout(matrix, []), matrix);
  });

  it("goes backwards with a negative step", () => {
    const reversed = sliceLayout(matrix, [{}, { step: -1 }]);
    assert.deepEqual(
      [reversed.shape, reversed.strides, reversed.byteOffset],
      [[4, 6], [6, -1], 8 + 20],
    );
    const everyOther = sliceLayout(matrix, [0, { start: -2, stop: 0, step: -2 }]);
    assert.deepEqual(
      [everyOther.shape, everyOther.strides, everyOther.byteOffset],
      [[2], [-2], 8 + 16],
    );
  });

  it("cuts ranges at the ends and keeps an empty one inside", () => {
    assert.deepEqual(sliceLayout(matrix, [{ start: -100, stop: 100 }]), matrix);
    const empty = sliceLayout(matrix, [{ start: 4 }, { start: 6 }]);
    assert.deepEqual([empty.shape, empty.byteOffset], [[0, 0], 8]);
    const column = sliceLayout(contiguousLayout("int32", [0, 3]), [{}, 2]);
    assert.deepEqual([column.shape, column.byteOffset], [[0], 0]);
  });

  it("keeps strides exact with a huge step", () => {
    const first = sliceLayout(matrix, [{ step: Number.MAX_SAFE_INTEGER }]);
    assert.deepEqual(
      [first.shape, first.strides],
      [
        [1, 6],
        [6, 1],
      ],
    );
  });

  it("refuses what numpy refuses", () => {
    assert.throws(
      () => sliceLayout(matrix, [4]),
      /^RangeError: Cannot slice: index 4 is outside of axis 0 with 4 elements/,
    );
    assert.throws(() => sliceLayout(matrix, [-5]), RangeError);
    assert.throws(() => sliceLayout(matrix, [0.5]), RangeError);
    assert.throws(
      () => sliceLayout(matrix, [{ step: 0 }]),
      /^RangeError: .*step of axis 0 must not be 0/,
    );
    assert.throws(
      () => sliceLayout(matrix, [{ stop: Number.NaN }]),
      /^RangeError: .*stop of axis 0 must be an integer/,
    );
    assert.throws(() => sliceLayout(matrix, [0, 0, 0]), /^RangeError: .*3 ranges for 2 dimensions/);
    assert.throws(() => sliceLayout(matrix, ["1" as never]), TypeError);
    assert.throws(() => sliceLayout(matrix, [undefined as never]), TypeError);
  });
});

describe("reshapeLayout", () => {
  it("reshapes contiguous arrays, computing one axis", () => {
    assert.deepEqual(reshapeLayout(matrix, [-1, 8]), contiguousLayout("int32", [3, 8], 8));
    assert.deepEqual(reshapeLayout(contiguousLayout("int8", []), [1, 1]).shape, [1, 1]);
    assert.deepEqual(reshapeLayout(contiguousLayout("int8", [0, 3]), [-1, 5]).shape, [0, 5]);
  });

  it("makes a view of other arrays if a regular step allows it", () => {
    const columns = sliceLayout(matrix, [{}, { step: 2 }]);
    assert.deepEqual(reshapeLayout(columns, [2, 2, 3]).strides, [12, 6, 2]);
    assert.deepEqual(reshapeLayout(columns, [12]).strides, [2]);
    assert.deepEqual(reshapeLayout(transposeLayout(matrix), [2, 3, 4]).strides, [3, 1, 6]);
  });

  it("says that a copy would be needed", () => {
    assert.throws(
      () => reshapeLayout(transposeLayout(matrix), [24]),
      /^TypeError: Cannot reshape \[6, 4\] to \[24\]: elements with strides \[1, 6\] would have to be copied/,
    );
    assert.throws(
      () => reshapeLayout(sliceLayout(matrix, [{}, { stop: 4 }]), [8, 2].reverse()),
      TypeError,
    );
  });

  it("refuses another number of elements", () => {
    assert.throws(
      () => reshapeLayout(matrix, [5, 5]),
      /^RangeError: Cannot reshape 24 elements to \[5, 5\], which has 25/,
    );
    assert.throws(() => reshapeLayout(matrix, [-1, 5]), RangeError);
    assert.throws(() => reshapeLayout(matrix, [-1, -1]), /only one axis may be -1/);
    assert.throws(() => reshapeLayout(matrix, [-2, -12]), RangeError);
    assert.throws(() => reshapeLayout(contiguousLayout("int8", [0]), [0, -1]), RangeError);
    assert.throws(() => reshapeLayout(contiguousLayout("int8", [0]), [1]), RangeError);
  });
});

describe("transposeLayout", () => {
  it("reverses the axes, or reorders them as given", () => {
    const cube = contiguousLayout("int8", [2, 3, 4]);
    assert.deepEqual(transposeLayout(cube).shape, [4, 3, 2]);
    assert.deepEqual(transposeLayout(cube).strides, [1, 4, 12]);
    assert.deepEqual(transposeLayout(cube, [1, -1, 0]).shape, [3, 4, 2]);
  });

  it("refuses axes that are missing or duplicate", () => {
    for (const axes of [[0], [0, 0], [0, 2], [0, -3], [0.5, 1], [0, 1, 2]]) {
      assert.throws(() => transposeLayout(matrix, axes), RangeError, JSON.stringify(axes));
    }
  });
});
