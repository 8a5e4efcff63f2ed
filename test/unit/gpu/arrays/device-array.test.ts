import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { type DType, dtypeNames, dtypes } from "../../../../src/array/dtype.js";
import {
  type HostValues,
  hostArrayType,
  hostEntriesPerElement,
} from "../../../../src/array/host-values.js";
import { hasCode } from "../../../../src/base/errors.js";
import { DeviceArray } from "../../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../../src/gpu/device.js";
import { Disposables } from "../../../support/disposables.js";
import { checkLeaks } from "../../../support/leak-check.js";

const BIG = 5 * 1024 * 1024;

function valuesOf(dtype: DType, count: number) {
  const values = new (hostArrayType(dtype))(count * hostEntriesPerElement(dtype));
  const bytes = new Uint8Array(values.buffer);
  for (let i = 0; i < bytes.length; i += 1)
    bytes[i] = dtype === "bool" ? i % 2 : (i * 37 + 11) % 251;
  return values;
}

function bytesOf(values: ArrayBufferView): Buffer {
  return Buffer.from(values.buffer, values.byteOffset, values.byteLength);
}

describe("DeviceArray on the host device", () => {
  let made = new Disposables();
  let device: Device;
  checkLeaks(() => made.end());
  beforeEach(() => {
    made = new Disposables();
    device = made.add(Device.open("host"));
  });

  function array<D extends DType>(dtype: D, ...shape: number[]): DeviceArray<D> {
    return made.add(DeviceArray.allocate(device, { dtype, shape }, "test"));
  }

  for (const dtype of dtypeNames) {
    it(`reads back ${dtype} of every shape, bit for bit`, async () => {
      for (const shape of [[], [0], [1], [7], [3, 0, 2], [2, 3, 4], [1, 1, 1, 5]]) {
        const it = array(dtype, ...shape);
        const values = valuesOf(dtype, it.elementCount);
        await it.write(values as HostValues);
        assert.ok(bytesOf(await it.read()).equals(bytesOf(values)), `shape [${shape}]`);
        assert.equal(it.byteLength, it.elementCount * dtypes[dtype].byteSize);
      }
    });

    it(`reads and writes slices of ${dtype}, also reversed, and nothing else`, async () => {
      const whole = array(dtype, 6, 8);
      const before = valuesOf(dtype, 48);
      await whole.write(before as HostValues);
      const part = whole.slice({ start: 4, step: -2 }, { start: 1, stop: 7, step: 3 });
      assert.deepEqual(part.shape, [3, 2]);
      const entries = hostEntriesPerElement(dtype);
      const wanted = [4, 2, 0].flatMap((row) => [1, 4].map((column) => row * 8 + column));
      const read = await part.read();
      wanted.forEach((element, i) => {
        for (let e = 0; e < entries; e += 1)
          assert.ok(Object.is(read[i * entries + e], before[element * entries + e]));
      });
      const zeros = new (hostArrayType(dtype))(6 * entries);
      await part.write(zeros as HostValues);
      const after = bytesOf(await whole.read());
      const elementBytes = dtypes[dtype].byteSize;
      for (let element = 0; element < 48; element += 1) {
        const found = after.subarray(element * elementBytes, (element + 1) * elementBytes);
        const old = bytesOf(before).subarray(element * elementBytes, (element + 1) * elementBytes);
        assert.ok(
          found.equals(wanted.includes(element) ? Buffer.alloc(elementBytes) : old),
          `element ${element}`,
        );
      }
    });
  }

  it("transfers several pieces, at any offset", async () => {
    const it = array("uint8", BIG + 17);
    const values = valuesOf("uint8", BIG + 17) as Uint8Array<ArrayBuffer>;
    await it.write(values);
    assert.ok(bytesOf(await it.read()).equals(bytesOf(values)));
    const part = new Uint8Array(BIG);
    await it.buffer.read(5, part);
    assert.ok(bytesOf(part).equals(bytesOf(values).subarray(5, 5 + BIG)));
  });

  it("transfers slices of long arrays in pieces cut along their axes", async () => {
    const whole = array("uint16", 3, 2048, 1024);
    const values = valuesOf("uint16", whole.elementCount) as Uint16Array<ArrayBuffer>;
    await whole.write(values);
    const turned = whole.transpose(0, 2, 1).slice({ step: -1 });
    const read = await turned.read();
    for (const [a, b, c] of [
      [0, 0, 0],
      [2, 1023, 2047],
      [1, 500, 3],
      [0, 1, 2047],
    ] as const) {
      assert.equal(read[(a * 1024 + b) * 2048 + c], values[((2 - a) * 2048 + c) * 1024 + b]);
    }
    await whole.clear();
    await turned.write(read);
    assert.ok(bytesOf(await whole.read()).equals(bytesOf(values)));
  });

  it("clears an array, and a slice without the rest", async () => {
    const it = array("int32", 4);
    await it.write([1, 2, 3, 4]);
    await it.slice({ step: 2 }).clear();
    assert.deepEqual([...(await it.read())], [0, 2, 0, 4]);
    await it.clear();
    assert.deepEqual([...(await it.read())], [0, 0, 0, 0]);
  });

  it("view() shares the memory of the array", async () => {
    const it = array("float32", 2, 2);
    const view = it.view();
    view[3] = 7;
    assert.deepEqual([...(await it.read())], [0, 0, 0, 7]);
    await it.write([1, 2, 3, 4]);
    assert.deepEqual([...view], [1, 2, 3, 4]);
    assert.deepEqual([...it.slice(1).view()], [3, 4]);
    assert.throws(
      () => it.slice({}, 0).view(),
      (error) => hasCode(error, "UNSUPPORTED"),
    );
    assert.equal(it.buffer.view(it.buffer.byteLength).byteLength, 0);
    assert.equal(array("uint8", 4096).buffer.view(4096).byteLength, 0);
  });

  it("refuses a wrong number of values, and values of another type", async () => {
    const it = array("float32", 4);
    await assert.rejects(it.write([1, 2, 3]), RangeError);
    await assert.rejects(it.write(new Int32Array(4) as never), TypeError);
    assert.throws(() => it.expectDType("int32"), TypeError);
  });

  it("throws CLOSED from all methods after close(), slices included", async () => {
    const it = array("int32", 4);
    const slice = it.slice({ step: 2 });
    it.close();
    it.close();
    for (const closed of [it, slice]) {
      const attempts = [
        () => closed.read(),
        () => closed.write(new Int32Array(closed.elementCount)),
        () => closed.clear(),
        async () => closed.buffer.view(),
        async () => closed.buffer.exportFd(),
        async () => closed.buffer.pointer,
        () => closed.buffer.fill(0, { elementBytes: 1, value: 0 }, 1),
      ];
      for (const attempt of attempts)
        await assert.rejects(attempt(), (error) => hasCode(error, "CLOSED"), String(attempt));
    }
  });

  it("finishes pending transfers after close(), and is unmapped then", async () => {
    const it = array("float32", 2048, 2048);
    const values = new Float32Array(2048 * 2048).fill(3);
    await it.write(values);
    const columns = it.slice({}, { step: 3 });
    const reads = [it.read(), columns.read(), columns.read()];
    const writes = [columns.write(new Float32Array(columns.elementCount).fill(3)), it.clear()];
    it.close();
    const [whole] = await Promise.all(reads);
    await Promise.all(writes);
    assert.equal(whole?.length, values.length);
  });

  it("is usable after its device was closed, and the driver closes with it", async () => {
    const own = Device.open("host");
    const it = made.add(DeviceArray.allocate(own, { dtype: "int32", shape: [2] }));
    const stream = made.add(own.createStream());
    own.close();
    await it.write([1, 2]);
    assert.deepEqual([...(await it.read())], [1, 2]);
    assert.ok(stream.isIdle());
    assert.throws(
      () => DeviceArray.allocate(own, { dtype: "int32", shape: [2] }),
      (error) => hasCode(error, "CLOSED"),
    );
    assert.throws(
      () => own.createStream(),
      (error) => hasCode(error, "CLOSED"),
    );
    stream.close();
    assert.equal(own.driver.deviceCount(), 1);
    it.close();
    assert.throws(
      () => own.driver.deviceCount(),
      (error) => hasCode(error, "CLOSED"),
    );
  });

  describe("with a deadline", () => {
    const expired = { timeoutMs: 0 };
    const aborted = { signal: AbortSignal.abort() };

    it("starts no transfer after the deadline", async () => {
      const it = array("int32", 4);
      await it.write([1, 2, 3, 4]);
      for (const part of [it, it.slice({ step: 2 })]) {
        const zeros = new Int32Array(part.elementCount);
        await assert.rejects(part.write(zeros, expired), (error) => hasCode(error, "TIMEOUT"));
        await assert.rejects(part.write(zeros, aborted), (error) => hasCode(error, "ABORTED"));
        await assert.rejects(part.read(aborted), (error) => hasCode(error, "ABORTED"));
        await assert.rejects(part.clear(aborted), (error) => hasCode(error, "ABORTED"));
      }
      assert.deepEqual([...(await it.read())], [1, 2, 3, 4]);
    });

    it("stops between the pieces of every kind of transfer", async () => {
      const it = array("uint8", 64, 1024 * 1024);
      const columns = it.slice({}, { step: 2 });
      for (const start of [
        (signal: AbortSignal) => it.read({ signal }),
        (signal: AbortSignal) => it.write(new Uint8Array(it.elementCount), { signal }),
        (signal: AbortSignal) => columns.read({ signal }),
        (signal: AbortSignal) => columns.write(new Uint8Array(columns.elementCount), { signal }),
      ]) {
        const controller = new AbortController();
        const transfer = start(controller.signal);
        controller.abort();
        await assert.rejects(transfer, (error) => hasCode(error, "ABORTED"), String(start));
      }
    });
  });
});
