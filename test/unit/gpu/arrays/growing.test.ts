import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { ErrorCode } from "../../../../src/base/error-codes.js";
import { CudaIpcError, hasCode } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { createHostDriver } from "../../../../src/driver/host/host-driver.js";
import { GrowingArray } from "../../../../src/gpu/arrays/growing-array.js";
import { Device } from "../../../../src/gpu/device.js";
import { GrowingBuffer } from "../../../../src/gpu/memory/growing-buffer.js";
import type { ExportedGrowth } from "../../../../src/gpu/memory/growing-memory.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";
import type { GrowingDescriptor } from "../../../../src/wire/growing-descriptor.js";
import { Disposables } from "../../../support/disposables.js";
import { createFailingDriver } from "../../../support/failing-driver.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { interceptDriver } from "../../../support/intercept-driver.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { isOpen, linkOf } from "../../../support/open-files.js";
import { until } from "../../../support/until.js";
import { LingeringSockets } from "../../../support/waiting-fds.js";

const PAGE = 4096;

function isCode(code: ErrorCode): (error: unknown) => boolean {
  return (error) => hasCode(error, code);
}

for (const [kind, name, create] of [
  ["host", "host", createHostDriver],
  ["cuda", "cuda:0", createFakeGpu],
] as const) {
  describe(`memory that grows on a device of kind ${kind}`, () => {
    let made = new Disposables();
    let device: Device;
    checkLeaks(() => made.end());
    beforeEach(() => {
      made = new Disposables();
      device = made.add(Device.open(name, () => create()));
    });

    function growing(byteLength: number, maxByteLength: number): GrowingBuffer {
      return made.add(GrowingBuffer.create(device, { byteLength, maxByteLength, label: "log" }));
    }

    function exported<T extends ExportedGrowth | ReturnType<GrowingBuffer["export"]>>(it: T): T {
      for (const fd of it.fds) made.add(fd);
      return it;
    }

    it("follow() refuses a socket as a piece, and does not wait for its close", {
      timeout: 60_000,
    }, async () => {
      const { descriptor } = exported(growing(0, PAGE).export());
      using lingering = await LingeringSockets.open();
      const sockets = [lingering.make(), lingering.make()];
      const [first = "", second = ""] = sockets.map(linkOf);
      const growth = { from: 0, byteLengths: [PAGE], byteLength: 1 };
      let fetched = 0;
      const fetch = async () => ({ fds: [sockets[fetched++] as OwnedFd], growth });
      const follower = made.add(GrowingBuffer.import(device, [], descriptor, { fetch }));
      for (const _ of sockets)
        await assert.rejects(follower.follow(), (error) => hasCode(error, "INVALID_DESCRIPTOR"));
      await until("the first is being closed", () => !isOpen(first));
      assert.ok(isOpen(second));
      lingering[Symbol.dispose]();
      await until("the second is closed, too", () => !isOpen(second));
    });

    it("keeps its address, buffer and content while it grows, in few pieces", async () => {
      const it = growing(10, 4096 * PAGE);
      const { pointer, buffer } = it;
      await buffer.write(
        0,
        Uint8Array.from({ length: 10 }, (_, i) => i),
      );
      for (let byteLength = 100; byteLength <= 4096 * PAGE; byteLength += 100_000) {
        it.grow(byteLength);
        assert.equal(buffer.byteLength, byteLength);
        await buffer.fill(byteLength - 50, { elementBytes: 1, value: 77 }, 50);
      }
      assert.ok(it.pieceCount <= 14, `${it.pieceCount} pieces`);
      assert.equal(it.pointer, pointer);
      assert.equal(it.buffer, buffer);
      const bytes = new Uint8Array(100);
      await buffer.read(0, bytes);
      assert.deepEqual([...bytes.subarray(0, 10)], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
      assert.deepEqual([...new Set(bytes.subarray(50))], [77]);
      await assert.rejects(buffer.read(it.byteLength, new Uint8Array(1)), RangeError);
    });

    it("stays unchanged if growing fails", () => {
      const it = growing(PAGE, 3 * PAGE);
      assert.throws(() => it.grow(3 * PAGE + 1), isCode("LIMIT_EXCEEDED"));
      assert.throws(() => it.grow(PAGE - 1), RangeError);
      assert.deepEqual([it.byteLength, it.pieceCount], [PAGE, 1]);
      it.grow(3 * PAGE);
      assert.throws(
        () => GrowingBuffer.create(device, { byteLength: 2 * PAGE, maxByteLength: PAGE }),
        isCode("LIMIT_EXCEEDED"),
      );
      assert.throws(
        () => GrowingBuffer.create(device, { byteLength: 0, maxByteLength: 0 }),
        RangeError,
      );
    });

    it("allocates only what is needed if there is no memory to double it", () => {
      const inner = create();
      const driver = interceptDriver(inner, {
        before(call, values) {
          if (call === "createMemory" && (values[1] as number) > PAGE)
            throw new CudaIpcError("OUT_OF_MEMORY", "Cannot create more");
        },
      });
      const poor = made.add(Device.open(name, () => driver));
      const it = made.add(
        GrowingBuffer.create(poor, { byteLength: PAGE, maxByteLength: 64 * PAGE }),
      );
      for (let pages = 2; pages <= 5; pages += 1) it.grow(pages * PAGE);
      assert.equal(it.pieceCount, 5);
      assert.throws(() => it.grow(9 * PAGE), isCode("OUT_OF_MEMORY"));
      assert.equal(it.byteLength, 5 * PAGE);
    });

    it("is followed in another mapping, first its pieces and then each growth", async () => {
      const it = growing(PAGE + 1, 1024 * PAGE);
      await it.buffer.fill(0, { elementBytes: 1, value: 1 }, PAGE + 1);
      const { fds, descriptor } = exported(it.export());
      const follower = made.add(
        GrowingBuffer.import(device, fds, JSON.parse(JSON.stringify(descriptor)), {
          access: "read-write",
        }),
      );
      assert.deepEqual([follower.byteLength, follower.pieceCount], [PAGE + 1, it.pieceCount]);
      const { pointer } = follower;
      it.grow(100 * PAGE);
      it.grow(300 * PAGE);
      await it.buffer.fill(0, { elementBytes: 1, value: 2 }, 300 * PAGE);
      const more = exported(it.exportGrowth(follower.pieceCount));
      follower.extend(more.fds, more.growth);
      follower.extend(more.fds, more.growth);
      assert.deepEqual([follower.byteLength, follower.pieceCount], [300 * PAGE, it.pieceCount]);
      assert.equal(follower.pointer, pointer);
      const bytes = new Uint8Array(300 * PAGE);
      await follower.buffer.read(0, bytes);
      assert.ok(bytes.every((byte) => byte === 2));
      it.close();
      await follower.buffer.fill(0, { elementBytes: 1, value: 3 }, 10);
      await follower.buffer.read(0, bytes);
      assert.deepEqual([...bytes.subarray(8, 12)], [3, 3, 2, 2]);
      assert.throws(() => follower.grow(301 * PAGE), isCode("UNSUPPORTED"));
      assert.throws(() => follower.export(), isCode("UNSUPPORTED"));
      assert.throws(
        () => follower.extend([], { from: 0, byteLengths: [PAGE], byteLength: 1 }),
        isCode("INVALID_DESCRIPTOR"),
      );
    });

    it("refuses pieces that are not next, and contradictory descriptors", () => {
      const it = growing(PAGE, 64 * PAGE);
      const { fds, descriptor } = exported(it.export());
      const follower = made.add(GrowingBuffer.import(device, fds, descriptor));
      it.grow(2 * PAGE);
      it.grow(8 * PAGE);
      const { fds: all, growth } = exported(it.exportGrowth(0));
      const refused: readonly [readonly (typeof all)[number][], typeof growth][] = [
        [all.slice(2), { ...growth, from: 2, byteLengths: growth.byteLengths.slice(2) }],
        [all, { ...growth, byteLengths: growth.byteLengths.map((length) => 2 * length) }],
        [all.slice(1), growth],
        [[], { from: 1, byteLengths: [], byteLength: 2 * PAGE }],
        [[], { from: 1.5, byteLengths: [], byteLength: 0 }],
        [all.slice(0, 1), { from: 1, byteLengths: [16 * PAGE], byteLength: PAGE }],
      ];
      for (const [some, claim] of refused)
        assert.throws(() => follower.extend(some, claim), isCode("INVALID_DESCRIPTOR"));
      assert.deepEqual([follower.byteLength, follower.pieceCount], [PAGE, 1]);
      follower.extend(all, growth);
      const wrong: readonly Partial<GrowingDescriptor>[] = [
        { maxByteLength: PAGE - 1 },
        { growth: { from: 1, byteLengths: [], byteLength: 0 } },
        { growth: { from: 0, byteLengths: [PAGE], byteLength: PAGE + 1 } },
        {
          growth: {
            from: 0,
            byteLengths: new Array(limits.growingPiecesMax + 1).fill(1),
            byteLength: 0,
          },
        },
      ];
      for (const part of wrong) {
        assert.throws(
          () => GrowingBuffer.import(device, fds, { ...descriptor, ...part }),
          isCode("INVALID_DESCRIPTOR"),
        );
      }
    });

    it("keeps the memory until a transfer is done, and close() is idempotent", async () => {
      const it = growing(1024 * PAGE, 1024 * PAGE);
      const target = new Uint8Array(1024 * PAGE);
      await it.buffer.fill(0, { elementBytes: 1, value: 4 }, target.byteLength);
      const reading = it.buffer.read(0, target);
      it.close();
      it.close();
      await reading;
      assert.ok(target.every((byte) => byte === 4));
      assert.throws(() => it.grow(1024 * PAGE), isCode("CLOSED"));
      assert.throws(() => it.exportGrowth(0), isCode("CLOSED"));
    });

    it("appends rows in the order of the calls", async () => {
      const it = made.add(
        GrowingArray.create(device, { dtype: "float32", shape: [0, 3], maxLength: 100_000 }),
      );
      assert.deepEqual(it.shape, [0, 3]);
      const first = it.array;
      const appends = [1, 2, 3, 4].map((n) => it.append(new Float32Array(3 * 1000 * n).fill(n)));
      assert.equal(it.length, 0);
      await Promise.all(appends);
      assert.deepEqual(it.shape, [10_000, 3]);
      const values = await it.array.read();
      const expected = [1, 2, 3, 4].flatMap((n) => new Array<number>(3000 * n).fill(n));
      assert.deepEqual(values, Float32Array.from(expected));
      assert.deepEqual(first.shape, [0, 3]);
      it.grow(10_001);
      await it.append([1, 2, 3]);
      assert.deepEqual(await it.array.slice(10_001).read(), Float32Array.of(1, 2, 3));
    });

    it("appends nothing if an append fails, and the next append works", async () => {
      const it = made.add(
        GrowingArray.create(device, { dtype: "int32", shape: [2, 2], maxLength: 2048 }),
      );
      await it.array.write([1, 2, 3, 4]);
      await assert.rejects(it.append([1, 2, 3]), RangeError);
      const outcomes = await Promise.allSettled([
        it.append(new Int32Array(4 * 4096)),
        it.append([9, 9, 9, 9], { signal: AbortSignal.abort() }),
        it.append([10, 11, 12, 13]),
      ]);
      assert.deepEqual(
        outcomes.map(({ status }) => status),
        ["rejected", "rejected", "fulfilled"],
      );
      assert.deepEqual(await it.array.slice({ start: 2 }).read(), Int32Array.of(10, 11, 12, 13));
      assert.throws(
        () => GrowingArray.create(device, { dtype: "int32", shape: [], maxLength: 1 }),
        RangeError,
      );
      assert.throws(
        () => GrowingArray.create(device, { dtype: "int32", shape: [2, 0], maxLength: 2 }),
        RangeError,
      );
      assert.throws(
        () => GrowingArray.create(device, { dtype: "int32", shape: [3], maxLength: 2 }),
        RangeError,
      );
    });

    it("does not count rows that could not be written", async () => {
      const only = [kind === "host" ? "cpuAddress" : "copyToDevice"] as const;
      const failing = createFailingDriver(create(), { failAt: 1, only });
      const broken = made.add(Device.open(name, () => failing.driver));
      const it = made.add(
        GrowingArray.create(broken, { dtype: "int32", shape: [0], maxLength: 100 }),
      );
      await assert.rejects(it.append([1, 2, 3]), isCode("CUDA_ERROR"));
      assert.equal(it.length, 0);
      await it.append([4, 5]);
      assert.deepEqual(await it.array.read(), Int32Array.of(4, 5));
    });

    it("leaks nothing if a piece cannot be mapped", () => {
      const failing = createFailingDriver(create(), { failAt: 2, only: ["extendMapping"] });
      const broken = made.add(Device.open(name, () => failing.driver));
      const it = made.add(
        GrowingBuffer.create(broken, { byteLength: PAGE, maxByteLength: 8 * PAGE }),
      );
      assert.throws(() => it.grow(2 * PAGE), isCode("CUDA_ERROR"));
      assert.deepEqual([it.byteLength, it.pieceCount], [PAGE, 1]);
      it.grow(2 * PAGE);
      assert.deepEqual([it.byteLength, it.pieceCount], [2 * PAGE, 2]);
    });
  });
}
