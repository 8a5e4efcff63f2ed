import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { Scope } from "../../../src/base/scope.js";
import type { GpuDriver } from "../../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../../src/driver/host/host-driver.js";
import { createFailingDriver } from "../../support/failing-driver.js";
import { createCountingDriver } from "../../support/live-counts.js";

/**
 * Maps memory and uses it in the scope. On a failure, careful code closes the scope and careless
 * code does not.
 */
function work(driver: GpuDriver, careless: boolean, scope: Scope): void {
  try {
    const memory = scope.own(driver.createMemory(0, 4096), (it) => driver.releaseMemory(it));
    const pointer = scope.own(driver.mapMemory(memory, "read-write"), (it) =>
      driver.unmapMemory(0, it),
    );
    const stream = scope.own(driver.createStream(0), (it) => driver.destroyStream(it));
    driver.fill(stream, pointer, { elementBytes: 1, value: 1 }, 4096);
  } catch (error) {
    if (!careless) scope.close();
    throw error;
  }
  scope.close();
}

/** All counts, with the n-th call failing for every n. Returns the calls that failed. */
function sweep(careless: boolean, scope = new Scope()): string[] {
  const failed: string[] = [];
  for (let failAt = 1; ; failAt += 1) {
    const counting = createCountingDriver(createHostDriver());
    const before = counting.counts();
    const failing = createFailingDriver(counting.driver, { failAt });
    try {
      work(failing.driver, careless, scope);
    } catch (error) {
      assert.ok(hasCode(error, "CUDA_ERROR"));
    }
    if (failing.failed === undefined) return failed;
    failed.push(failing.failed);
    assert.deepEqual(counting.counts(), before);
  }
}

describe("createFailingDriver", () => {
  it("goes through every call, and careful code leaves nothing behind", () => {
    assert.deepEqual(sweep(false), [
      "createMemory",
      "mapMemory",
      "createStream",
      "fill",
      "destroyStream",
      "unmapMemory",
      "releaseMemory",
    ]);
  });

  it("catches code that leaves something behind", () => {
    const leftOver = new Scope();
    assert.throws(() => sweep(true, leftOver), assert.AssertionError);
    leftOver.close();
  });

  it("counts only the given calls, and throws the given error", () => {
    const failing = createFailingDriver(createHostDriver(), {
      failAt: 2,
      only: ["createStream"],
      error: (call) => new TypeError(call),
    });
    failing.driver.memoryInfo(0);
    failing.driver.destroyStream(failing.driver.createStream(0));
    assert.equal(failing.calls, 1);
    assert.throws(() => failing.driver.createStream(0), /^TypeError: createStream$/);
    assert.equal(failing.failed, "createStream");
    failing.driver.close();
  });
});

describe("createCountingDriver", () => {
  it("counts each kind of thing up and down", () => {
    const { driver, counts } = createCountingDriver(createHostDriver());
    const before = counts();
    const memory = driver.createMemory(0, 4096);
    const fd = driver.exportMemory(memory);
    const imported = driver.importMemory(0, fd, 4096);
    const pointer = driver.mapMemory(imported, "read");
    const staging = driver.allocateStaging(0, 4096);
    driver.registerHostMemory(0, pointer, 4096, "read");
    const stream = driver.createStream(0);
    assert.deepEqual(counts(), {
      ...before,
      memories: before.memories + 2,
      mappings: before.mappings + 1,
      stagings: before.stagings + 1,
      registrations: before.registrations + 1,
      streams: before.streams + 1,
      fds: before.fds + 3,
      mappedBytes: before.mappedBytes + 8192,
    });
    driver.destroyStream(stream);
    driver.unregisterHostMemory(0, pointer);
    driver.freeStaging(staging);
    driver.unmapMemory(0, pointer);
    driver.releaseMemory(imported);
    driver.releaseMemory(memory);
    fd.close();
    assert.deepEqual(counts(), before);
  });
});
