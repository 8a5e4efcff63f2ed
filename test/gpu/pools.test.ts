/** Pools and growing memory on a real GPU, and from one GPU to another. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { afterEach, beforeEach, describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { GrowingArray } from "../../src/gpu/arrays/growing-array.js";
import { Device } from "../../src/gpu/device.js";
import { MemoryPool } from "../../src/gpu/memory/memory-pool.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { describePools } from "../process/pools/describe-pools.js";
import { Disposables } from "../support/disposables.js";

const MiB = 1024 * 1024;
const IMPORTER = fileURLToPath(new URL("../process/pools/actors/imports-pool.js", import.meta.url));
const skip = whyNoGpu() ?? false;

describePools({ device: "cuda:0", skip });

describe("pools of a GPU", { skip }, () => {
  let made = new Disposables();
  let device: Device;
  beforeEach(() => {
    made = new Disposables();
    device = made.add(Device.open("cuda:0"));
  });
  afterEach(() => made.end());

  it("allocates, fills, copies out and frees in stream order, without a wait between", async () => {
    const pool = made.add(MemoryPool.create(device, { maxBytes: 256 * MiB }));
    const stream = made.add(device.createStream());
    const sums = made.add(pool.allocateArray({ dtype: "int32", shape: [1000] }, { stream }));
    for (let round = 0; round < 1000; round += 1) {
      const buffer = pool.allocate(100 * MiB, { stream });
      buffer.enqueue("write", stream, ({ pointer }) => {
        device.driver.fill(
          stream.handle,
          pointer + BigInt(99 * MiB),
          { elementBytes: 4, value: round },
          16,
        );
        device.driver.copyOnDevice(
          stream.handle,
          sums.buffer.pointer + BigInt(4 * round),
          pointer + BigInt(99 * MiB),
          4,
        );
      });
      buffer.close();
    }
    await stream.synchronize();
    assert.deepEqual(
      await sums.read(),
      new Int32Array(1000).map((_, i) => i),
    );
    assert.ok(pool.statistics().reservedHighBytes <= 256 * MiB);
  });

  it("frees its memory on the GPU when it is closed", async () => {
    const warm = MemoryPool.create(device, { maxBytes: 64 * MiB, shared: true });
    warm.allocate(MiB).close();
    warm.close();
    const before = device.memoryInfo().freeBytes;
    for (let round = 0; round < 4; round += 1) {
      using pool = MemoryPool.create(device, { maxBytes: 1024 * MiB, shared: true });
      using buffer = pool.allocate(1024 * MiB);
      await buffer.fill(0, { elementBytes: 1, value: round }, buffer.byteLength);
    }
    const missing = before - device.memoryInfo().freeBytes;
    assert.ok(missing < 1024 * MiB, `${missing} bytes are missing`);
  });

  it("trims freed memory", async () => {
    const pool = made.add(MemoryPool.create(device, { maxBytes: 512 * MiB }));
    const buffer = pool.allocate(256 * MiB);
    await buffer.ready();
    buffer.close();
    await new Promise((resolve) => setImmediate(resolve));
    using stream = device.createStream();
    await stream.synchronize();
    assert.ok(pool.statistics().reservedBytes >= 256 * MiB);
    pool.trim();
    assert.equal(pool.statistics().reservedBytes, 0);
  });

  it("grows to a gigabyte in place, and copies across the pieces", async () => {
    const array = made.add(
      GrowingArray.create(device, { dtype: "int32", shape: [0, 1024], maxLength: 262_144 }),
    );
    const { pointer } = array.memory;
    for (let i = 0; i < 16; i += 1) await array.append(new Int32Array(16_384 * 1024).fill(i));
    assert.equal(array.memory.pointer, pointer);
    assert.deepEqual(array.shape, [262_144, 1024]);
    for (let i = 0; i < 16; i += 1) {
      const rows = await array.array.slice({ start: i * 16_384, stop: (i + 1) * 16_384 }).read();
      assert.ok(
        rows.every((value) => value === i),
        `piece ${i}`,
      );
    }
  });

  it("is imported by a process that works on another GPU", async (t) => {
    if (device.driver.deviceCount() < 2) return t.skip("there is one GPU");
    const pool = made.add(MemoryPool.create(device, { maxBytes: 64 * MiB, shared: true }));
    const array = made.add(pool.allocateArray({ dtype: "float32", shape: [1024] }));
    await array.write(new Float32Array(1024).map((_, i) => i));
    const { fd, descriptor } = pool.export();
    const named = JSON.stringify(await pool.exportBuffer(array.buffer));
    const actor = spawn(process.execPath, [IMPORTER, JSON.stringify(descriptor), named], {
      env: { ...process.env, CUDA_IPC_DEVICE: "cuda:1" },
      stdio: ["pipe", "ignore", "pipe", fd.number],
      timeout: 60_000,
    });
    fd.close();
    actor.stdin?.write("\n");
    let complaint = "";
    actor.stderr?.setEncoding("utf8").on("data", (text: string) => {
      complaint += text;
    });
    const status = await new Promise((resolve) =>
      actor.on("close", (code, signal) => resolve(signal ?? code)),
    );
    assert.equal(status, 0, complaint);
    assert.deepEqual(
      await array.read(),
      new Float32Array(1024).map((_, i) => -i),
    );
  });
});
