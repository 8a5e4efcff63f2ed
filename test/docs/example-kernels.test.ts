/** The CUDA C++ of the examples compiles, and its values are those of the JavaScript beside it. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { content, SOURCE } from "../../examples/cuda-kernels.js";
import { Program } from "../../src/doors/kernels.js";
import { whyNoNvrtc } from "../support/nvrtc.js";

describe("the kernels of the examples", () => {
  it("compile without a warning", { skip: whyNoNvrtc() ?? false }, async () => {
    const { kernelNames, log } = await Program.compile(SOURCE);
    assert.deepEqual([...kernelNames].sort(), ["count_errors", "produce", "slow", "twice"]);
    assert.equal(log, "");
  });

  it("write values that a double holds before it is rounded once", () => {
    const step = BigInt(Math.fround(0.001) * 2 ** 40);
    assert.equal(Number(step), Math.fround(0.001) * 2 ** 40);
    for (const i of [0, 1, 2, 3, 1000, 65_535, 2 ** 20 - 1, 2 ** 24 - 1]) {
      const exact = 42n * 2n ** 40n + BigInt(i) * step;
      assert.equal(BigInt((42 + i * Math.fround(0.001)) * 2 ** 40), exact);
      assert.equal(content(i), Math.fround(Number(exact) / 2 ** 40));
    }
  });
});
