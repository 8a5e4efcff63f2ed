import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { type ErrorCode, errorCodes } from "../../../../src/base/error-codes.js";
import { hasCode } from "../../../../src/base/errors.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import { Device } from "../../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import { MemoryPool } from "../../../../src/gpu/memory/memory-pool.js";
import type { MemoryPoolOptions } from "../../../../src/gpu/memory/pool-options.js";
import type { PooledDescriptor } from "../../../../src/wire/pool-descriptor.js";
import { Disposables } from "../../../support/disposables.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { checkLeaks } from "../../../support/leak-check.js";

const MiB = 1024 * 1024;

async function assertCode(code: ErrorCode, attempt: () => unknown): Promise<void> {
  assert.ok(code in errorCodes);
  await assert.rejects(
    async () => attempt(),
    (error) => hasCode(error, code),
    `${code}: ${attempt}`,
  );
}

for (const [kind, name, create] of [
  ["host", "host", createHostDriver],
  ["cuda", "cuda:0", createFakeGpu],
] as const) {
  describe(`MemoryPool on a device of kind ${kind}`, () => {
    let made = new Disposables();
    let device: Device;
    checkLeaks(() => made.end());
    beforeEach(() => {
      made = new Disposables();
      device = made.add(Device.open(name, () => create()));
    });

    function pool(options: Partial<MemoryPoolOptions> = {}): MemoryPool {
      return made.add(
        MemoryPool.create(device, {
          maxBytes: 16 * MiB,
          shared: true,
          label: "frames",
          ...options,
        }),
      );
    }

    it("allocates buffers and arrays that read back what was written", async () => {
      const it = pool();
      const array = made.add(it.allocateArray({ dtype: "float32", shape: [1024] }));
      const values = new Float32Array(1024).map((_, i) => i + 100);
      await array.write(values);
      assert.deepEqual(await array.read(), values);
      assert.equal(array.buffer.mechanism, "pool");
      assert.deepEqual([it.shared, it.imported, array.buffer.imported], [true, false, false]);
      assert.equal(pool({ shared: false }).shared, false);
      assert.equal(array.buffer.allocationByteLength, 4096);
      const small = made.add(it.allocate(3));
      assert.deepEqual(
        [small.byteLength, small.allocationByteLength, small.label],
        [3, 512, "frames"],
      );
      assert.equal(made.add(it.allocate(0)).byteLength, 0);
      await small.fill(0, { elementBytes: 1, value: 7 }, 3);
      const bytes = new Uint8Array(3);
      await small.read(0, bytes);
      assert.deepEqual([...bytes], [7, 7, 7]);
      assert.equal(it.statistics().usedBytes, 4096 + 512 + 512);
    });

    it("frees memory when a buffer is closed, but not before its users are done", async () => {
      const it = pool();
      const buffer = it.allocate(8 * MiB);
      const target = new Uint8Array(8 * MiB);
      await buffer.fill(0, { elementBytes: 1, value: 5 }, 8 * MiB);
      const reading = buffer.read(0, target);
      buffer.close();
      assert.equal(it.statistics().usedBytes, 8 * MiB);
      await reading;
      assert.ok(target.every((byte) => byte === 5));
      assert.equal(it.statistics().usedBytes, 0);
      await assertCode("CLOSED", () => buffer.read(0, target));
    });

    it("allocates and frees in the order of a stream", async () => {
      const it = pool();
      const stream = made.add(device.createStream());
      const timeline = device.createTimeline();
      stream.wait(timeline, 1);
      const buffer = it.allocate(4096, { stream });
      let ready = false;
      const waiting = buffer.ready().then(() => {
        ready = true;
      });
      await assertCode("TIMEOUT", () => buffer.write(0, new Uint8Array(8), { timeoutMs: 5 }));
      await assertCode("TIMEOUT", () => it.exportBuffer(buffer, { timeoutMs: 5 }));
      const other = made.add(device.createStream());
      const fill = () => buffer.enqueue("write", other, () => assert.fail("enqueued"));
      assert.throws(fill, /another stream has not reached its allocation/);
      assert.equal(ready, false);
      buffer.enqueue("write", stream, (mapped) =>
        device.driver.fill(stream.handle, mapped.pointer, { elementBytes: 1, value: 3 }, 4096),
      );
      const twin = made.add(buffer.twin());
      timeline.signal(1);
      await waiting;
      const bytes = new Uint8Array(4096);
      await twin.read(0, bytes);
      assert.deepEqual([...new Set(bytes)], [3]);

      stream.wait(timeline, 2);
      buffer.close();
      twin.close();
      assert.equal(it.statistics().usedBytes, 4096, "the stream has not got to the free");
      timeline.signal(2);
      await stream.synchronize();
      assert.equal(it.statistics().usedBytes, 0);
      timeline.close();
    });

    it("frees in the order of the stream passed to close()", async () => {
      const it = pool();
      const stream = made.add(device.createStream());
      const timeline = device.createTimeline();
      const buffer = it.allocate(512);
      stream.wait(timeline, 1);
      buffer.close({ stream });
      assert.equal(it.statistics().usedBytes, 512);
      timeline.signal(1);
      await stream.synchronize();
      assert.equal(it.statistics().usedBytes, 0);
      timeline.close();

      const second = made.add(it.allocate(512));
      const closed = device.createStream();
      closed.close();
      await assertCode("CLOSED", () => second.close({ stream: closed }));
      assert.equal(second.open, true);
      const plain = made.add(DeviceBuffer.allocate(device, 512));
      await assertCode("UNSUPPORTED", () => plain.close({ stream }));
      const elsewhere = made.add(Device.open(name, () => create()));
      const foreign = made.add(elsewhere.createStream());
      assert.throws(() => second.close({ stream: foreign }), TypeError);
      assert.throws(() => it.allocate(512, { stream: foreign }), TypeError);
    });

    it("does not free memory that another stream still uses", async () => {
      const { driver } = device;
      const frames = pool();
      using gate = device.createTimeline();
      using a = device.createStream();
      using b = device.createStream();
      const buffer = frames.allocate(4096, { stream: a });
      await buffer.ready();
      a.wait(gate, 1);
      buffer.enqueue("write", a, (mapped) =>
        driver.fill(a.handle, mapped.pointer, { elementBytes: 1, value: 7 }, 4096),
      );
      buffer.close({ stream: b });
      const next = made.add(frames.allocate(4096, { stream: b }));
      await next.ready();
      await next.fill(0, { elementBytes: 1, value: 1 }, 4096);
      gate.signal(1);
      await a.synchronize({ timeoutMs: 30_000 });
      const found = new Uint8Array(4096);
      await next.read(0, found);
      assert.ok(found.every((byte) => byte === 1));
      await b.synchronize({ timeoutMs: 30_000 });
    });

    it("outlives a stream that is closed before its buffers", async () => {
      const it = pool();
      const stream = device.createStream();
      const buffer = it.allocate(512, { stream });
      stream.close();
      await buffer.ready();
      buffer.close();
      assert.equal(it.statistics().usedBytes, 0);
    });

    it("refuses to close while buffers are open, and close() is idempotent", async () => {
      const it = MemoryPool.create(device, { maxBytes: MiB });
      const buffer = it.allocate(512);
      await assertCode("IN_USE", () => it.close());
      const twin = buffer.twin();
      buffer.close();
      await assertCode("IN_USE", () => it.close());
      twin.close();
      it.close();
      it.close();
      await assertCode("CLOSED", () => it.allocate(1));
      await assertCode("CLOSED", () => it.statistics());
      await assertCode("CLOSED", () => it.trim());
      await assertCode("CLOSED", () => it.export());
    });

    it("refuses invalid requests and leaks nothing", async () => {
      const it = pool({ shared: false });
      await assertCode("OUT_OF_MEMORY", () => it.allocate(17 * MiB));
      assert.throws(() => it.allocate(-1), RangeError);
      assert.throws(() => MemoryPool.create(device, { maxBytes: 0 }), RangeError);
      await assertCode("UNSUPPORTED", () => it.export());
      await assertCode("UNSUPPORTED", () => it.exportBuffer(made.add(it.allocate(1))));
      await assertCode("UNSUPPORTED", () =>
        it.exportBuffer(made.add(DeviceBuffer.allocate(device, 1))),
      );
    });

    it("import() in the exporting process returns a buffer on the same memory", async () => {
      const it = pool();
      const buffer = made.add(it.allocate(100));
      const named = await it.exportBuffer(buffer);
      assert.deepEqual([named.byteLength, named.allocationByteLength], [100, 512]);
      assert.equal(Buffer.from(named.data, "base64").byteLength, 64);
      const { fd, descriptor } = it.export();
      const again = made.add(MemoryPool.import(device, fd, descriptor));
      fd.close();
      assert.equal(again.id, it.id);
      const twin = made.add(again.import(JSON.parse(JSON.stringify(named))));
      assert.equal(twin.pointer, buffer.pointer);
      await buffer.fill(0, { elementBytes: 1, value: 9 }, 100);
      buffer.close();
      const bytes = new Uint8Array(100);
      await twin.read(0, bytes);
      assert.deepEqual([...new Set(bytes)], [9]);
      twin.close();
      assert.equal(it.statistics().usedBytes, 0);
      await assertCode("INVALID_HANDLE", () => it.import(named));
    });

    it("exportBuffer() throws CLOSED if the buffer is closed while it waits", async () => {
      const it = pool();
      const stream = made.add(device.createStream());
      const timeline = device.createTimeline();
      stream.wait(timeline, 1);
      const buffer = it.allocate(512, { stream });
      const exporting = assertCode("CLOSED", () => it.exportBuffer(buffer));
      buffer.close();
      timeline.signal(1);
      await exporting;
      timeline.close();
    });

    it("exportBuffer() refuses a buffer of another pool", async () => {
      const [it, other] = [pool(), pool()];
      const foreign = made.add(other.allocate(512));
      await assert.rejects(it.exportBuffer(foreign), /is of another pool/);
    });

    it("refuses descriptors that are invalid, of another pool, or too large", async () => {
      const [it, other] = [pool(), pool()];
      const named = await it.exportBuffer(made.add(it.allocate(512)));
      await assertCode("INVALID_HANDLE", () => other.import(named));
      const wrong: readonly Record<string, unknown>[] = [
        { ...named, version: 2 },
        { ...named, extra: 1 },
        { ...named, data: named.data.slice(4) },
        { ...named, data: `${named.data}AAAA` },
        { ...named, byteLength: 513 },
        { ...named, byteLength: -1 },
        { ...named, allocationByteLength: 1024 },
        { ...named, pool: "x" },
      ];
      for (const value of wrong) {
        await assertCode("INVALID_DESCRIPTOR", () =>
          it.import(value as unknown as PooledDescriptor),
        );
      }
      await assertCode("INVALID_HANDLE", () =>
        it.import({ ...named, data: Buffer.alloc(64).toString("base64") }),
      );
      const { fd, descriptor } = it.export();
      made.add(fd);
      const elsewhere = {
        ...descriptor,
        device: kind === "host" ? fakeGpu : { kind: "host" as const },
      };
      await assertCode("INVALID_DESCRIPTOR", () => MemoryPool.import(device, fd, elsewhere));
      await assertCode("INVALID_DESCRIPTOR", () =>
        MemoryPool.import(device, fd, { ...descriptor, maxBytes: 0 }),
      );
      const apart = made.add(Device.open(name, () => create()));
      await assertCode("IN_USE", () => MemoryPool.import(apart, fd, descriptor));
      assert.equal(it.statistics().usedBytes, 512);
    });

    it("checks that an array fits into the imported memory", async () => {
      const it = pool();
      const named = await it.exportBuffer(made.add(it.allocate(64)));
      await assertCode("INVALID_DESCRIPTOR", () =>
        it.importArray(named, { dtype: "float64", shape: [9] }),
      );
      const array = made.add(
        it.importArray(named, { dtype: "float64", shape: [2, 4] }, { access: "read" }),
      );
      await assertCode("READ_ONLY", () => array.clear());
    });
  });
}

const fakeGpu = { kind: "cuda", uuid: "GPU-00000000-0000-0000-0000-000000000000" } as const;
