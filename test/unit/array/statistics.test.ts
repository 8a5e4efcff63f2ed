import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { toHostBytes } from "../../../src/array/host-values.js";
import { StatisticsAccumulator, statistics } from "../../../src/array/statistics.js";

describe("statistics", () => {
  it("counts NaN and infinity, and leaves them out of the mean", () => {
    const bytes = toHostBytes("float32", [1, Number.NaN, -0, 3, Infinity], 5);
    assert.deepEqual(statistics("float32", bytes), {
      elementCount: 5,
      nanCount: 1,
      infiniteCount: 1,
      zeroCount: 1,
      of: "value",
      min: -0,
      max: Infinity,
      mean: 4 / 3,
    });
  });

  it("has no extremes and no mean without values", () => {
    for (const bytes of [new Uint8Array(0), toHostBytes("float64", [Number.NaN], 1)]) {
      const { min, max, mean } = statistics("float64", bytes);
      assert.deepEqual([min, max, mean], [undefined, undefined, undefined]);
    }
    const { min, mean } = statistics("float64", toHostBytes("float64", [-Infinity], 1));
    assert.deepEqual([min, mean], [-Infinity, undefined]);
  });

  it("keeps the extremes of 64-bit integers exact", () => {
    const found = statistics(
      "uint64",
      toHostBytes("uint64", [2n ** 64n - 1n, 2n ** 64n - 2n, 0], 3),
    );
    assert.equal(found.max, 2n ** 64n - 1n);
    assert.equal(found.min, 0n);
    assert.equal(found.zeroCount, 1);
    assert.equal(statistics("int64", toHostBytes("int64", [-4, 2], 2)).mean, -1);
  });

  it("decodes small floats", () => {
    for (const dtype of ["float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"] as const) {
      const { min, max, mean, nanCount } = statistics(
        dtype,
        toHostBytes(dtype, [-1, 2, 0.5, Number.NaN], 4),
      );
      assert.deepEqual([min, max, mean, nanCount], [-1, 2, 0.5, 1], dtype);
    }
  });

  it("takes the magnitudes of complex values", () => {
    const pairs = [3, 4, 0, 0, Number.NaN, Infinity, -Infinity, 0];
    assert.deepEqual(statistics("complex64", toHostBytes("complex64", pairs, 4)), {
      elementCount: 4,
      nanCount: 1,
      infiniteCount: 1,
      zeroCount: 1,
      of: "magnitude",
      min: 0,
      max: Infinity,
      mean: 2.5,
    });
  });

  it("gives the share of true as the mean of bools", () => {
    const { min, max, mean, zeroCount } = statistics(
      "bool",
      toHostBytes("bool", [true, false, true, true], 4),
    );
    assert.deepEqual([min, max, mean, zeroCount], [0, 1, 0.75, 1]);
  });

  it("has a finite mean even if the sum would overflow", () => {
    const large = Number.MAX_VALUE;
    const { mean } = statistics(
      "float64",
      toHostBytes("float64", [large, large, -large, large], 4),
    );
    assert.ok(Math.abs(mean! / (large / 2) - 1) < 1e-12);
  });
});

describe("StatisticsAccumulator", () => {
  it("gives the same result for one piece and for many, over more than one block", () => {
    const values = Float64Array.from({ length: 10_001 }, (_, i) => (i * 7919) % 1000);
    const bytes = toHostBytes("float64", values, values.length);
    const accumulator = new StatisticsAccumulator("float64");
    for (let start = 0; start < bytes.length; start += 8 * 999)
      accumulator.add(bytes.subarray(start, start + 8 * 999));
    const [pieces, whole] = [accumulator.result(), statistics("float64", bytes)];
    const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
    assert.ok(Math.abs(pieces.mean! - mean) < 1e-9 && Math.abs(whole.mean! - mean) < 1e-9);
    assert.deepEqual({ ...pieces, mean: 0 }, { ...whole, mean: 0 });
    assert.equal(pieces.elementCount, 10_001);
    assert.deepEqual([pieces.min, pieces.max], [0, 999]);
  });

  it("refuses parts of elements and unknown dtypes", () => {
    const accumulator = new StatisticsAccumulator("int32");
    assert.throws(
      () => accumulator.add(new Uint8Array(4 * 5000 + 2)),
      /^RangeError: .*not whole elements of 4 bytes/,
    );
    assert.equal(accumulator.result().zeroCount, 0, "refused values do not count");
    assert.throws(() => new StatisticsAccumulator("int31" as never), TypeError);
  });
});
