/**
 * Element operations of the CUDA driver when a call beneath them fails. They must release
 * everything.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { GpuDriver } from "../../../../src/driver/gpu-driver.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { createPtxDriver } from "../../../support/ptx-driver.js";

const nothing = { modules: 0, memories: 0, mappings: 0, stagings: 0 };

class MadeToFail extends Error {}

/** Runs all kinds of operations, on memory that is released in any case. */
function useOperations(driver: GpuDriver): void {
  const memory = driver.createMemory(0, 4096);
  const to = driver.mapMemory(memory, "read-write");
  const stream = driver.createStream(0);
  const work = [
    () => driver.prepareOperations(0),
    () =>
      driver.enqueueOperation(stream, { kind: "fill", dtype: "int64", to, count: 10, value: 1n }),
    () => driver.enqueueOperation(stream, { kind: "fill", dtype: "int8", to, count: 10, value: 1 }),
    () =>
      driver.enqueueOperation(stream, {
        kind: "iota",
        dtype: "float32",
        to,
        count: 10,
        start: 0,
        step: 1,
      }),
    () => {
      const reduction = { kind: "statistics", dtype: "float32", from: to, count: 10 } as const;
      const pending = driver.enqueueReduction<"statistics">(stream, reduction);
      assert.equal(driver.isIdle(stream), true);
      assert.equal(pending.result().max, 9);
    },
    () =>
      driver.enqueueReduction<"checksum">(stream, { kind: "checksum", from: to, byteLength: 40 }),
  ];
  try {
    for (const part of work) part();
  } finally {
    driver.destroyStream(stream);
    driver.unmapMemory(0, to);
    driver.releaseMemory(memory);
  }
}

describe("element operations of the CUDA driver", () => {
  checkLeaks();

  it("load their kernels once, and unload them when the driver closes", () => {
    const calls: string[] = [];
    const { driver, held } = createPtxDriver(undefined, (call) => void calls.push(call));
    useOperations(driver);
    useOperations(driver);
    driver.prepareOperations(0);
    assert.equal(calls.filter((it) => it === "loadModule").length, 1);
    assert.equal(calls.filter((it) => it === "allocateStaging").length, 1);
    assert.equal(
      calls.lastIndexOf("findKernel") < calls.indexOf("launchKernel"),
      true,
      "all are found before a launch",
    );
    assert.deepEqual(held, { modules: 1, memories: 0, mappings: 1, stagings: 1 });
    driver.close();
    assert.deepEqual(held, nothing);
    driver.close();
  });

  it("leave nothing behind if any call fails, and throw its error", () => {
    const failed = new Set<string>();
    for (let failAt = 1; ; failAt += 1) {
      let count = 0;
      const { driver, held } = createPtxDriver(undefined, (call) => {
        count += 1;
        if (count !== failAt) return;
        failed.add(call);
        throw new MadeToFail(call);
      });
      let thrown: unknown;
      try {
        useOperations(driver);
      } catch (error) {
        thrown = error;
      }
      const isOver = count < failAt;
      try {
        driver.close();
      } catch (error) {
        thrown ??= error;
      }
      driver.close();
      assert.deepEqual(held, nothing, `call ${failAt}`);
      if (isOver && thrown === undefined) break;
      assert.ok(thrown instanceof MadeToFail, String(thrown));
    }
    for (const call of [
      "loadModule",
      "findKernel",
      "createMemory",
      "mapMemory",
      "allocateStaging",
      "launchKernel",
      "fill",
    ])
      assert.ok(failed.has(call), call);
    for (const call of ["copyToHost", "unloadModule"]) assert.ok(failed.has(call), call);
  });

  it("load the missing kernels after a failure", () => {
    let fails = true;
    const { driver } = createPtxDriver(undefined, (call) => {
      if (fails && call === "findKernel") throw new MadeToFail(call);
    });
    assert.throws(() => useOperations(driver), MadeToFail);
    fails = false;
    useOperations(driver);
    driver.close();
  });
});
