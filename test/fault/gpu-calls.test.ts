/**
 * Each call of the driver fails in turn. The error is thrown, and nothing is left once everything
 * is closed.
 */
import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { describe, it } from "node:test";
import { Scope } from "../../src/base/scope.js";
import type { GpuDriver } from "../../src/driver/gpu-driver.js";
import { createHostDriver } from "../../src/driver/host/host-driver.js";
import { DeviceArray } from "../../src/gpu/arrays/device-array.js";
import { GrowingArray } from "../../src/gpu/arrays/growing-array.js";
import { Device } from "../../src/gpu/device.js";
import { DeviceBuffer } from "../../src/gpu/memory/device-buffer.js";
import { GrowingBuffer } from "../../src/gpu/memory/growing-buffer.js";
import { MemoryPool } from "../../src/gpu/memory/memory-pool.js";
import { Disposables } from "../support/disposables.js";
import { createFailingDriver } from "../support/failing-driver.js";
import { createFakeGpu } from "../support/fake-gpu.js";
import { checkLeaks } from "../support/leak-check.js";
import { createCountingDriver } from "../support/live-counts.js";
import { isMadeToFail } from "../support/made-to-fail.js";

const CALLS_MAX = 2000;

/** Uses everything of the layer, and closes it at the end. */
async function useEverything(driver: GpuDriver): Promise<void> {
  using device = Device.open(driver.describeDevice(0).id, () => driver);
  device.memoryInfo();
  using stream = device.createStream();
  using array = DeviceArray.allocate(device, { dtype: "float32", shape: [3, 1024, 1024] });
  const values = new Float32Array(array.elementCount).fill(1);
  await array.write(values);
  using fd = array.buffer.exportFd();
  const { byteLength, allocationByteLength } = array.buffer;
  const options = {
    label: "imported",
    byteLength,
    allocationByteLength,
    access: "read-write",
  } as const;
  using imported = DeviceBuffer.import(device, fd, options);
  using twin = imported.twin();
  await twin.read(0, new Uint8Array(100));
  const part = array.slice(0, { step: 400 }, { stop: 10 });
  await part.write(await part.read());
  await array.clear();
  await array.read();
  // Few elements, so that the host finishes at once and the number of calls is always the same.
  const row = array.slice(0, 0);
  await row.iota(0, 1, { stream });
  await row.statistics({ stream });
  await row.affine(2, 1);
  await row.compare(row);
  await stream.synchronize();
}

/** Does the same for pools and memory that grows. */
async function usePoolsAndGrowth(driver: GpuDriver): Promise<void> {
  using device = Device.open(driver.describeDevice(0).id, () => driver);
  using stream = device.createStream();
  using pool = MemoryPool.create(device, { maxBytes: 1024 * 1024, shared: true });
  using array = pool.allocateArray({ dtype: "float32", shape: [64, 64] }, { stream });
  await array.clear();
  using named = pool.import(await pool.exportBuffer(array.buffer));
  await named.read(0, new Uint8Array(100));
  using poolFd = pool.export().fd;
  poolFd.close();
  pool.statistics();
  pool.trim();
  array.buffer.close({ stream });

  using growing = GrowingArray.create(device, { dtype: "int32", shape: [4, 16], maxLength: 4096 });
  const { fds, descriptor } = growing.memory.export();
  const owned = new Disposables();
  try {
    for (const fd of fds) owned.add(fd);
    using follower = GrowingBuffer.import(device, fds, descriptor);
    await growing.append(new Int32Array(16 * 512));
    const more = growing.memory.exportGrowth(follower.pieceCount);
    for (const fd of more.fds) owned.add(fd);
    follower.extend(more.fds, more.growth);
    await follower.buffer.read(0, new Uint8Array(8192));
  } finally {
    owned.end();
  }
}

/** Uses a pool and its import in one driver, as two processes would. */
async function importPool(driver: GpuDriver): Promise<void> {
  const scope = new Scope();
  try {
    const options = { maxBytes: 65_536, releaseThresholdBytes: 0, shared: true };
    const stream = scope.own(driver.createStream(0), (it) => driver.destroyStream(it));
    const pool = scope.own(driver.createPool(0, options), (it) => driver.destroyPool(it));
    const pointer = scope.own(driver.allocateFromPool(pool, 4096, stream), (it) =>
      driver.freeToPool(it, stream),
    );
    const fd = scope.own(driver.exportPool(pool), (it) => it.close());
    const data = driver.exportPoolPointer(pointer);
    using device = Device.open(driver.describeDevice(0).id, () => interceptClose(driver));
    const named = { version: 1, pool: randomUUID() } as const;
    const from = device.reference;
    using imported = MemoryPool.import(device, fd, {
      ...named,
      kind: "pool",
      device: from,
      maxBytes: 65_536,
    });
    const sizes = { byteLength: 4096, allocationByteLength: 4096 };
    const descriptor = {
      ...named,
      kind: "pooled",
      data: Buffer.from(data).toString("base64"),
      ...sizes,
    } as const;
    using buffer = imported.import(descriptor);
    using twin = imported.import(descriptor);
    await twin.read(0, new Uint8Array(10));
    buffer.close();
    await twin.fill(0, { elementBytes: 1, value: 1 }, 10);
  } finally {
    scope.close();
    driver.close();
  }
}

/** Ignores close(): a device gets this driver, and somebody else closes it. */
function interceptClose(driver: GpuDriver): GpuDriver {
  return new Proxy(driver, {
    get: (target, name) => (name === "close" ? () => {} : Reflect.get(target, name)),
  });
}

describe("a failing n-th call of a driver", () => {
  checkLeaks();

  for (const [kind, create] of [
    ["host", createHostDriver],
    ["cuda", createFakeGpu],
  ] as const) {
    for (const [what, use, calls] of [
      ["memory", useEverything, ["mapMemory", "unmapMemory", "importMemory"]],
      [
        "pools and growth",
        usePoolsAndGrowth,
        ["createPool", "freeToPool", "destroyPool", "extendMapping", "releaseReservation"],
      ],
      ["imports of pools", importPool, ["importPool", "importPoolPointer", "freeToPool"]],
    ] as const)
      it(`is thrown by its operation, and leaves nothing of ${what} (${kind} device)`, async () => {
        const failed = new Set<string>();
        for (let failAt = 1; failAt < CALLS_MAX; failAt += 1) {
          const counting = createCountingDriver(create());
          const failing = createFailingDriver(counting.driver, { failAt });
          const before = counting.counts();
          let thrown: unknown;
          try {
            await use(failing.driver);
          } catch (error) {
            thrown = error;
          }
          assert.deepEqual(counting.counts(), before, `call ${failAt}, ${failing.failed}`);
          if (failing.failed === undefined) {
            assert.equal(thrown, undefined);
            assert.ok(failAt > 12, "there are enough calls to fail");
            for (const call of calls) assert.ok(failed.has(call), call);
            return;
          }
          failed.add(failing.failed);
          assert.ok(
            isMadeToFail(thrown),
            `call ${failAt}, ${failing.failed}: found ${String(thrown)}`,
          );
        }
        assert.fail(`more than ${CALLS_MAX} calls`);
      });
  }
});
