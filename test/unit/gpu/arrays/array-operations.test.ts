import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { type DType, dtypeNames } from "../../../../src/array/dtype.js";
import { hasCode } from "../../../../src/base/errors.js";
import { DeviceArray } from "../../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../../src/gpu/device.js";
import { DeviceBuffer } from "../../../../src/gpu/memory/device-buffer.js";
import { Disposables } from "../../../support/disposables.js";
import { createFakeGpu } from "../../../support/fake-gpu.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { createCountingDriver } from "../../../support/live-counts.js";

const devices = {
  host: () => Device.open("host"),
  "a GPU": () => Device.open("cuda:0", () => createFakeGpu()),
};

for (const [name, open] of Object.entries(devices)) {
  describe(`operations on arrays on ${name}`, () => {
    let made = new Disposables();
    let device: Device;
    checkLeaks(() => made.end());
    beforeEach(() => {
      made = new Disposables();
      device = made.add(open());
    });

    function array<D extends DType>(dtype: D, ...shape: number[]): DeviceArray<D> {
      return made.add(DeviceArray.allocate(device, { dtype, shape }, "test"));
    }

    it("fill, iota, affine and compare give the right elements without a stream", async () => {
      const it = array("float32", 3, 5);
      await it.fill(0.5);
      assert.deepEqual([...(await it.read())], new Array(15).fill(0.5));
      await it.iota(1, 2);
      assert.deepEqual([...(await it.read())].slice(0, 3), [1, 3, 5]);
      await it.iota();
      const twice = array("float32", 15);
      await twice.affine(2, 1, { from: it.reshape(15) });
      await it.affine(2, 1);
      assert.deepEqual([...(await twice.read())], [...(await it.read())]);
      assert.deepEqual(await it.compare(twice.reshape(3, 5)), { differences: 0, first: undefined });
      await twice.slice({ start: 7, stop: 9 }).fill(Number.NaN);
      assert.deepEqual(await it.compare(twice), { differences: 2, first: 7 });
      const statistics = await twice.statistics();
      assert.deepEqual(
        [statistics.elementCount, statistics.nanCount, statistics.min, statistics.max],
        [15, 2, 1, 29],
      );
      assert.equal(
        await it.checksum(),
        await array("float32", 15)
          .copyFrom(it)
          .then(() => it.checksum()),
      );
      assert.notEqual(await it.checksum(), await twice.checksum());
    });

    it("compare() with a tolerance takes elements for equal as numpy.isclose does", async () => {
      const one = array("float32", 6);
      const other = array("float32", 6);
      const { NaN: nan, POSITIVE_INFINITY: infinite } = Number;
      await one.write([1, 1.001, nan, infinite, 0, -100]);
      await other.write([1, 1, nan, infinite, 1e-9, -101]);
      assert.deepEqual(await one.compare(other), { differences: 3, first: 1 });
      const within = (rtol: number | undefined, atol: number | undefined) =>
        one.compare(other, { rtol, atol });
      assert.deepEqual(await within(0, 0), { differences: 4, first: 1 });
      assert.deepEqual(await within(0.01, undefined), { differences: 2, first: 2 });
      assert.deepEqual(await within(undefined, 0.01), { differences: 2, first: 2 });
      assert.deepEqual(await within(1e-3, 1e-8), { differences: 3, first: 1 });
      assert.deepEqual(await within(undefined, 2), { differences: 1, first: 2 });
      const stream = made.add(device.createStream());
      assert.deepEqual(await one.compare(other, { rtol: 0.01, stream }), {
        differences: 2,
        first: 2,
      });
      await assert.rejects(within(-1, 0), /^RangeError: rtol must be a finite number from 0/);
      await assert.rejects(within(0, Infinity), /^RangeError: atol must be a finite number from 0/);
      await assert.rejects(within("1" as unknown as number, 0), /^TypeError: rtol must be/);
      const complex = array("complex64", 2);
      await assert.rejects(complex.compare(complex, { rtol: 1 }), (error) =>
        hasCode(error, "UNSUPPORTED_DTYPE"),
      );
    });

    it("accept 64-bit integers as bigints and as exact numbers", async () => {
      const it = array("int64", 4);
      await it.iota(2n ** 62n, 1);
      assert.deepEqual(
        [...(await it.read())],
        [0n, 1n, 2n, 3n].map((i) => 2n ** 62n + i),
      );
      assert.deepEqual((await it.statistics()).max, 2n ** 62n + 3n);
      await assert.rejects(it.fill(2 ** 60), RangeError);
      await assert.rejects(array("int32", 1).fill(1n), TypeError);
    });

    it("work on empty arrays", async () => {
      const [one, other] = [array("int16", 0), array("int16", 2, 0)];
      await one.fill(1);
      await one.iota();
      await one.affine(1, 1, { from: other });
      assert.deepEqual(await one.compare(other), { differences: 0, first: undefined });
      assert.equal(await one.checksum(), 0n);
      assert.equal((await one.statistics()).min, undefined);
    });

    it("throw clear errors for gaps, mismatched arrays and wrong values", async () => {
      const ints = array("int32", 4, 4);
      const column = ints.transpose();
      const apart = made.add(open());
      const elsewhere = made.add(
        DeviceArray.allocate(apart, { dtype: "int32", shape: [4, 4] }, "elsewhere"),
      );
      const gaps = (error: unknown) =>
        hasCode(error, "UNSUPPORTED") && /not contiguous; use read/.test(error.message);
      for (const attempt of [
        () => column.fill(1),
        () => column.iota(),
        () => column.affine(1, 1),
        () => ints.affine(1, 1, { from: column }),
        () => ints.compare(column),
        () => column.checksum(),
        () => column.statistics(),
      ]) {
        await assert.rejects(attempt(), gaps, attempt.toString());
      }
      await assert.rejects(ints.compare(elsewhere), /opened on another device/);
      await assert.rejects(ints.compare(array("int32", 15)), RangeError);
      await assert.rejects(ints.compare(array("uint32", 16) as unknown as typeof ints), TypeError);
      await assert.rejects(ints.affine(1, 1, { from: array("int32", 3) }), RangeError);
      await assert.rejects(ints.fill(2 ** 31), RangeError);
      await assert.rejects(ints.fill("1" as unknown as number), TypeError);
      const stream = made.add(apart.createStream());
      await assert.rejects(ints.fill(1, { stream }), TypeError);
    });

    it("refuse dtypes without arithmetic, except compare() and checksum()", async () => {
      for (const dtype of dtypeNames.filter((it) => /bool|float8|complex/.test(it))) {
        const it = array(dtype, 5);
        const unsupported = (error: unknown) => hasCode(error, "UNSUPPORTED_DTYPE");
        await assert.rejects(it.fill(1), unsupported);
        await assert.rejects(it.iota(), unsupported);
        await assert.rejects(it.affine(1, 1), unsupported);
        await assert.rejects(it.statistics(), unsupported);
        await it.clear();
        assert.deepEqual(await it.compare(it), { differences: 0, first: undefined });
        await it.checksum();
      }
    });

    it("refuse to write to a read-only buffer, and read it", async () => {
      const owner = array("int32", 8);
      await owner.iota();
      const fd = made.add(owner.buffer.exportFd());
      const { byteLength, allocationByteLength } = owner.buffer;
      const options = {
        label: "read-only",
        byteLength,
        allocationByteLength,
        access: "read",
      } as const;
      const buffer = made.add(DeviceBuffer.import(device, fd, options));
      const it = new DeviceArray(buffer, {
        dtype: "int32",
        shape: [8],
        strides: [1],
        byteOffset: 0,
      });
      const stream = made.add(device.createStream());
      for (const attempt of [it.fill(1), it.iota(), it.affine(1, 1), it.fill(1, { stream })]) {
        await assert.rejects(attempt, (error) => hasCode(error, "READ_ONLY"));
      }
      assert.deepEqual(await it.compare(owner), { differences: 0, first: undefined });
      await owner.affine(2, 0, { from: it });
      assert.equal((await it.statistics()).max, 14);
      const shown = new DeviceArray(
        made.add(array("int32", 8).buffer.asReadOnly()),
        it.layout as typeof owner.layout & { dtype: "int32" },
      );
      for (const attempt of [
        shown.iota(),
        shown.iota(0, 1, { stream }),
        shown.affine(1, 1, { from: owner, stream }),
      ]) {
        await assert.rejects(attempt, (error) => hasCode(error, "READ_ONLY"));
      }
      await owner.affine(1, 0, { from: shown, stream });
      await stream.synchronize();
    });

    it("are enqueued in order before the call returns, and keep their memory", async () => {
      const stream = made.add(device.createStream());
      const timeline = made.add(device.createTimeline());
      const target = array("uint16", 1000);
      await target.fill(1);
      const source = DeviceArray.allocate(device, { dtype: "uint16", shape: [1000] }, "source");
      stream.wait(timeline, 1);
      await source.iota(5, 3, { stream });
      await target.affine(2, 0, { from: source, stream });
      const statistics = target.statistics({ stream });
      await target.fill(9, { stream });
      source.close();
      assert.equal(stream.isIdle(), false);
      timeline.signal(1);
      const { min, max } = await statistics;
      assert.deepEqual([min, max], [10, 2 * (5 + 3 * 999)]);
      assert.deepEqual(new Set(await target.read()), new Set([9]));
    });

    it("throw TIMEOUT or ABORTED while the stream continues, and leak nothing", async () => {
      const stream = made.add(device.createStream());
      const timeline = made.add(device.createTimeline());
      const it = array("int32", 10);
      await it.iota();
      stream.wait(timeline, 1);
      await assert.rejects(it.checksum({ stream, timeoutMs: 1 }), (error) =>
        hasCode(error, "TIMEOUT"),
      );
      const { signal } = { signal: AbortSignal.abort() };
      await assert.rejects(it.fill(1, { stream, signal }), (error) => hasCode(error, "ABORTED"));
      await assert.rejects(it.fill(1, { signal }), (error) => hasCode(error, "ABORTED"));
      await assert.rejects(it.statistics({ signal }), (error) => hasCode(error, "ABORTED"));
      timeline.signal(1);
      await stream.synchronize();
      assert.deepEqual([...(await it.read())], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    });

    it("throw CLOSED after the array or the stream was closed", async () => {
      const it = DeviceArray.allocate(device, { dtype: "int32", shape: [10] }, "closed");
      const stream = device.createStream();
      stream.close();
      const isClosed = (error: unknown) => hasCode(error, "CLOSED");
      await assert.rejects(it.checksum({ stream }), isClosed);
      it.close();
      await assert.rejects(it.fill(1), isClosed);
      await assert.rejects(it.statistics(), isClosed);
    });
  });
}

describe("a reduction whose wait was aborted", () => {
  checkLeaks();

  it("is discarded once its stream is idle or closed", async () => {
    const { driver, counts } = createCountingDriver(createFakeGpu());
    const before = counts();
    {
      using device = Device.open("cuda:0", () => driver);
      device.prepareOperations();
      using array = DeviceArray.allocate(device, { dtype: "int32", shape: [10] });
      using timeline = device.createTimeline();
      using stream = device.createStream();
      using closed = device.createStream();
      for (const it of [stream, closed]) {
        it.wait(timeline, 1);
        await assert.rejects(array.statistics({ stream: it, timeoutMs: 0.01 }), (error) =>
          hasCode(error, "TIMEOUT"),
        );
      }
      assert.equal(counts().reductions, 2);
      timeline.signal(1);
      await stream.synchronize();
      assert.equal(counts().reductions, 1);
    }
    assert.deepEqual(counts(), before);
  });
});
