import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { dtypeNames } from "../../../src/array/dtype.js";
import { histogram } from "../../../src/array/histogram.js";
import { toHostBytes } from "../../../src/array/host-values.js";

describe("histogram", () => {
  it("counts values in equal bins, and NaN and infinities apart", () => {
    const values = [0, 1, 2.5, 4, Number.NaN, Infinity, -Infinity, Infinity];
    const found = histogram("float32", toHostBytes("float32", values, values.length), 4);
    assert.deepEqual(found, {
      elementCount: 8,
      of: "value",
      from: 0,
      to: 4,
      finiteCount: 4,
      nanCount: 1,
      positiveInfiniteCount: 2,
      negativeInfiniteCount: 1,
      counts: [1, 1, 1, 1],
      isDiscrete: false,
    });
  });

  it("gives each of a few integers its own bin", () => {
    const found = histogram("int64", toHostBytes("int64", [-1, 2, 2, 0], 4), 4);
    assert.deepEqual([found.counts, found.isDiscrete], [[1, 1, 0, 2], true]);
    const bools = histogram("bool", toHostBytes("bool", [true, false, true], 3), 64);
    assert.deepEqual([bools.counts, bools.to], [[1, 2], 1]);
  });

  it("never has more bins than it may", () => {
    const found = (values: readonly number[]) =>
      histogram("int8", toHostBytes("int8", values, values.length), 4);
    assert.deepEqual([found([0, 3]).counts, found([0, 3]).isDiscrete], [[1, 0, 0, 1], true]);
    assert.deepEqual([found([0, 4]).counts, found([0, 4]).isDiscrete], [[1, 0, 0, 1], false]);
  });

  it("counts magnitudes of complex numbers", () => {
    const bytes = new Uint8Array(Float32Array.of(3, 4, 0, 0, 0, -1).buffer);
    const { of, from, to, counts } = histogram("complex64", bytes, 5);
    assert.deepEqual([of, from, to, counts], ["magnitude", 0, 5, [1, 1, 0, 0, 1]]);
  });

  it("has one bin for equal values and none without finite ones", () => {
    const same = histogram("float64", toHostBytes("float64", [0.5, 0.5], 2), 8);
    assert.deepEqual([same.counts, same.from, same.to], [[2], 0.5, 0.5]);
    const nans = histogram("float32", toHostBytes("float32", Array(5).fill(Number.NaN), 5), 8);
    assert.deepEqual([nans.counts, nans.nanCount], [[], 5]);
    assert.deepEqual(histogram("uint8", new Uint8Array(), 8).counts, []);
  });

  it("counts values whose difference overflows, and the smallest ones", () => {
    const { MAX_VALUE, MIN_VALUE } = Number;
    const wide = toHostBytes("float64", [-MAX_VALUE, 0, MAX_VALUE], 3);
    assert.deepEqual(histogram("float64", wide, 3).counts, [1, 1, 1]);
    const narrow = toHostBytes("float64", [0, MIN_VALUE, 2 * MIN_VALUE], 3);
    assert.deepEqual(histogram("float64", narrow, 3).counts, [1, 1, 1]);
  });

  it("counts every element of each dtype once", () => {
    for (const dtype of dtypeNames) {
      const { elementCount, finiteCount, counts, nanCount, ...found } = histogram(
        dtype,
        Uint8Array.from({ length: 4096 }, (_, i) => (dtype === "bool" ? i & 1 : (i * 37) & 255)),
        16,
      );
      const infinite = found.positiveInfiniteCount + found.negativeInfiniteCount;
      const sum = counts.reduce((total, count) => total + count, 0);
      assert.equal(sum, finiteCount, dtype);
      assert.equal(sum + nanCount + infinite, elementCount, dtype);
    }
  });
});
