import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { excessOf, excessRow, medianOf } from "../../../bench/paired.js";

describe("paired rounds", () => {
  it("show a small excess that is the same in each round, however much rounds differ", () => {
    const base = [1, 5, 2, 40, 3, 9];
    const { median, low, high } = excessOf(
      base,
      base.map((figure) => figure * 1.02),
    );
    for (const percent of [median, low, high]) assert.ok(Math.abs(percent - 2) < 1e-9);
  });

  it("have an interval as wide as what they disagree about", () => {
    const base = Array.from({ length: 20 }, () => 1);
    const other = base.map((_, round) => (round % 2 === 0 ? 0.9 : 1.1));
    const { low, high } = excessOf(base, other);
    assert.ok(low < -9 && high > 9, `${low} to ${high}`);
  });

  it("meet a goal only with the whole interval", () => {
    const met = (high: number) => excessRow("more", { median: 0, low: -1, high }, 1).met;
    assert.deepEqual([met(0.99), met(1), met(3)], [true, false, false]);
  });

  it("have a median between the middle two", () => {
    assert.deepEqual([medianOf([3, 1, 2]), medianOf([4, 1, 3, 2])], [2, 2.5]);
  });
});
