import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { DriverStream, GpuDriver } from "../../../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import type { DriverPool } from "../../../../src/driver/pool-calls.js";
import { checkLeaks } from "../../../support/leak-check.js";

const BYTES = 64 * 1024;

describe("pools of the host driver", () => {
  let driver: GpuDriver;
  checkLeaks(() => driver.close());
  beforeEach(() => {
    driver = createHostDriver();
  });

  function newPool(releaseThresholdBytes = BYTES, shared = false): DriverPool {
    return driver.createPool(0, { maxBytes: BYTES, releaseThresholdBytes, shared });
  }

  /** A stream that waits forever, for a word in memory of the pool. */
  function waiting(pool: DriverPool): { readonly stream: DriverStream; readonly pointer: bigint } {
    const stream = driver.createStream(0);
    const pointer = driver.allocateFromPool(pool, 512, stream);
    driver.fill(stream, pointer, { elementBytes: 1, value: 0 }, 512);
    driver.waitWord(stream, pointer, 1n);
    return { stream, pointer };
  }

  it("frees memory whose free was never reached when the stream ends", () => {
    const pool = newPool();
    const { stream, pointer } = waiting(pool);
    driver.freeToPool(pointer, stream);
    assert.equal(driver.poolStatistics(pool).usedBytes, 512);
    driver.destroyStream(stream);
    assert.equal(driver.poolStatistics(pool).usedBytes, 0);
    driver.destroyPool(pool);
  });

  it("frees the memory of a destroyed pool when the driver is closed", () => {
    const pool = newPool();
    const { stream, pointer } = waiting(pool);
    driver.freeToPool(pointer, stream);
    driver.destroyPool(pool);
  });

  it("frees memory on a failed stream, and throws the stream's error", () => {
    const pool = newPool();
    const other = driver.createStream(0);
    const { stream, pointer } = waiting(pool);
    const behind = driver.allocateFromPool(pool, 512, other);
    const third = driver.allocateFromPool(pool, 512, other);
    driver.fill(stream, behind, { elementBytes: 1, value: 1 }, 512);
    driver.freeToPool(third, stream);
    driver.freeToPool(behind, other);
    driver.fill(other, pointer, { elementBytes: 1, value: 1 }, 512);
    assert.throws(
      () => driver.isIdle(stream),
      RangeError,
      "its memory was freed by another stream",
    );
    assert.throws(() => driver.freeToPool(pointer, stream), RangeError);
    assert.equal(driver.poolStatistics(pool).usedBytes, 0);
    driver.destroyPool(pool);
  });

  it("can be freed on another stream if the first was destroyed", () => {
    const pool = newPool();
    const [gone, other] = [driver.createStream(0), driver.createStream(0)];
    const pointer = driver.allocateFromPool(pool, 512, gone);
    driver.destroyStream(gone);
    assert.throws(() => driver.freeToPool(pointer, gone), /destroyed/);
    driver.freeToPool(pointer, other);
    driver.destroyPool(pool);
  });

  it("keeps freed memory up to its threshold, and all of it if the pool is shared", () => {
    const [own, shared] = [newPool(4096), newPool(4096, true)];
    const stream = driver.createStream(0);
    for (const [pool, kept] of [
      [own, 4096],
      [shared, 32 * 1024],
    ] as const) {
      const pointer = driver.allocateFromPool(pool, 32 * 1024, stream);
      driver.fill(stream, pointer, { elementBytes: 1, value: 7 }, 32 * 1024);
      driver.freeToPool(pointer, stream);
      assert.equal(driver.poolStatistics(pool).reservedBytes, kept);
      driver.destroyPool(pool);
    }
  });
});
