import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../src/base/limits.js";
import { planShards } from "../../../src/files/shard-index.js";

function plan(sizes: readonly number[], bytesMax: number): [string, readonly string[]][] {
  return [
    ...planShards(new Map(sizes.map((byteLength, i) => [`a${i}`, { byteLength }])), bytesMax),
  ];
}

describe("planShards", () => {
  it("fills each file up to its limit, in the given order", () => {
    assert.deepEqual(plan([4, 4, 4, 2, 2], 8), [
      ["model-00001-of-00002.safetensors", ["a0", "a1"]],
      ["model-00002-of-00002.safetensors", ["a2", "a3", "a4"]],
    ]);
  });

  it("gives a larger array a file of its own", () => {
    assert.deepEqual(
      plan([1, 100, 1], 8).map(([, names]) => names),
      [["a0"], ["a1"], ["a2"]],
    );
  });

  it("names a single file model.safetensors, even without arrays", () => {
    assert.deepEqual(plan([1, 2, 0], 3), [["model.safetensors", ["a0", "a1", "a2"]]]);
    assert.deepEqual(plan([], 3), [["model.safetensors", []]]);
    assert.deepEqual(plan([1, 2], Number.POSITIVE_INFINITY), [["model.safetensors", ["a0", "a1"]]]);
  });

  it("refuses more files than shardsMax", () => {
    const ones = Array.from({ length: limits.shardsMax + 1 }, () => 1);
    assert.throws(() => plan(ones, 1), { code: "LIMIT_EXCEEDED", message: /shardsMax/ });
    assert.equal(plan(ones.slice(1), 1).length, limits.shardsMax);
  });
});
