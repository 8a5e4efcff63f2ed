import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type CudaError, hasCode } from "../../../../src/base/errors.js";
import type { GpuDriver } from "../../../../src/driver/gpu-driver.js";
import { cuResult } from "../../../../src/ffi/cuda-constants.js";
import { type FakeLibcuda, failing, openFake } from "./fake-libcuda.js";

const MiB = 1024 * 1024;

/** Makes a handle with the pid of this process or of another. */
function handleOf(pid: number, mark = 1): Uint8Array {
  const bytes = new Uint8Array(64).fill(mark);
  new DataView(bytes.buffer).setUint32(8, pid, true);
  return bytes;
}

const calls = (fake: FakeLibcuda, name: string) => fake.calls.filter((it) => it === name).length;

const imports = {
  event: [
    "cuIpcOpenEventHandle",
    (driver: GpuDriver, handle: Uint8Array) => driver.importEvent(0, handle),
  ],
  memory: [
    "cuIpcOpenMemHandle",
    (driver: GpuDriver, handle: Uint8Array) => driver.importLegacy(0, handle, "read"),
  ],
} as const;

for (const [kind, [call, importIt]] of Object.entries(imports)) {
  describe(`a handle of ${kind} that the CUDA driver refuses`, () => {
    const cases: readonly [status: number, pid: number, code: string][] = [
      [cuResult.CUDA_ERROR_INVALID_CONTEXT, process.pid, "OWN_HANDLE"],
      [cuResult.CUDA_ERROR_INVALID_CONTEXT, process.pid + 1, "INVALID_HANDLE"],
      [cuResult.CUDA_ERROR_INVALID_VALUE, process.pid, "INVALID_HANDLE"],
      [cuResult.CUDA_ERROR_INVALID_HANDLE, 1, "INVALID_HANDLE"],
      [cuResult.CUDA_ERROR_MAP_FAILED, 1, "INVALID_HANDLE"],
      [cuResult.CUDA_ERROR_UNKNOWN, 1, "INVALID_HANDLE"],
      [cuResult.CUDA_ERROR_ALREADY_MAPPED, 1, "IN_USE"],
      [cuResult.CUDA_ERROR_NOT_SUPPORTED, 1, "UNSUPPORTED"],
      [cuResult.CUDA_ERROR_PEER_ACCESS_UNSUPPORTED, 1, "PEER_ACCESS_UNSUPPORTED"],
      [cuResult.CUDA_ERROR_OUT_OF_MEMORY, 1, "OUT_OF_MEMORY"],
      [cuResult.CUDA_ERROR_ILLEGAL_ADDRESS, 1, "DEVICE_LOST"],
    ];
    for (const [status, pid, code] of cases) {
      it(`with ${status}${pid === process.pid ? " and the number of this process" : ""} is ${code}`, () => {
        const { driver, fake } = openFake(failing(call, status));
        assert.throws(
          () => importIt(driver, handleOf(pid)),
          (error: CudaError) => error.code === code && error.call === call,
        );
        driver.close();
        assert.equal(fake.everything, 0);
      });
    }

    it("is not passed to the driver if it has another length", () => {
      const { driver, fake } = openFake();
      for (const byteLength of [0, 63, 65]) {
        assert.throws(
          () => importIt(driver, new Uint8Array(byteLength)),
          (error) => hasCode(error, "INVALID_HANDLE"),
        );
      }
      assert.equal(calls(fake, call), 0);
    });
  });
}

describe("a handle that this process exported", () => {
  it("is refused without a driver call, until the object it names is gone", () => {
    const { driver, fake } = openFake();
    const event = driver.createEvent(0);
    const pointer = driver.allocateLegacy(0, 2 * MiB);
    const handles = [driver.exportEvent(event), driver.exportLegacy(0, pointer).handle] as const;
    assert.throws(
      () => driver.importEvent(0, handles[0]),
      (error) => hasCode(error, "OWN_HANDLE"),
    );
    assert.throws(
      () => driver.importLegacy(0, handles[1], "read"),
      (error) => hasCode(error, "OWN_HANDLE"),
    );
    assert.deepEqual(
      [calls(fake, "cuIpcOpenEventHandle"), calls(fake, "cuIpcOpenMemHandle")],
      [0, 0],
    );
    driver.destroyEvent(event);
    driver.freeLegacy(0, pointer);
    driver.destroyEvent(driver.importEvent(0, handles[0]));
    driver.closeLegacy(0, driver.importLegacy(0, handles[1], "read").pointer);
    driver.close();
    assert.equal(fake.everything, 0);
  });
});

describe("memory of the legacy mechanism on CUDA", () => {
  it("is not exported if the driver says it has no handle, and the error says why", () => {
    const { driver } = openFake({ legacyCapable: 0 });
    const pointer = driver.allocateLegacy(0, 2 * MiB);
    assert.throws(
      () => driver.exportLegacy(0, pointer),
      (error) =>
        hasCode(error, "UNSUPPORTED") &&
        /the driver says that this memory has no handle/.test(error.message),
    );
  });

  it("is opened once per handle, with any number of imports", () => {
    const { driver, fake } = openFake();
    const [first, second] = [
      driver.importLegacy(0, handleOf(1), "read"),
      driver.importLegacy(0, handleOf(1), "read-write"),
    ];
    assert.deepEqual([first.pointer, first.blockByteLength], [second.pointer, 4 * MiB]);
    driver.closeLegacy(0, first.pointer);
    assert.equal(fake.live.imports, 1);
    driver.closeLegacy(0, first.pointer);
    assert.deepEqual([fake.live.imports, calls(fake, "cuIpcOpenMemHandle")], [0, 1]);
    assert.throws(() => driver.closeLegacy(0, first.pointer), RangeError);
  });

  it("is closed as often as it was opened, if several handles open one address", () => {
    const { driver, fake } = openFake({ oneBlock: true });
    const pointers = [1, 2, 2].map(
      (mark) => driver.importLegacy(0, handleOf(1, mark), "read").pointer,
    );
    assert.equal(new Set(pointers).size, 1);
    for (const pointer of pointers) {
      assert.equal(fake.live.imports, 2);
      driver.closeLegacy(0, pointer);
    }
    assert.equal(fake.live.imports, 0);
  });

  it("is closed if its size cannot be read or its address is taken", () => {
    for (const options of [failing("cuMemGetAddressRange", 1)]) {
      const { driver, fake } = openFake(options);
      assert.throws(() => driver.importLegacy(0, handleOf(1), "read"), {
        call: "cuMemGetAddressRange",
      });
      assert.equal(fake.live.imports, 0);
    }
    const { driver, fake } = openFake({ oneBlock: true });
    driver.allocateLegacy(0, 2 * MiB);
    assert.throws(() => driver.importLegacy(0, handleOf(1), "read"), RangeError);
    assert.deepEqual([fake.live.imports, fake.live.allocations], [0, 1]);
  });

  it("is checked before work on it is enqueued, and not after it was freed", () => {
    const { driver } = openFake();
    const stream = driver.createStream(0);
    const { pointer } = driver.importLegacy(0, handleOf(1), "read-write");
    const fill = (count: number) =>
      driver.fill(stream, pointer, { elementBytes: 1, value: 0 }, count);
    fill(4 * MiB);
    assert.throws(() => fill(4 * MiB + 1), RangeError);
    driver.closeLegacy(0, pointer);
    fill(4 * MiB + 1);
  });

  it("belongs to its device alone", () => {
    const { driver } = openFake();
    const pointer = driver.allocateLegacy(0, 2 * MiB);
    assert.throws(() => driver.freeLegacy(1, pointer), RangeError);
    const imported = driver.importLegacy(0, handleOf(1), "read");
    assert.throws(() => driver.closeLegacy(1, imported.pointer), RangeError);
  });
});

describe("an event on CUDA", () => {
  it("is recorded only on streams of its own device, and never if it was imported", () => {
    const { driver } = openFake();
    const event = driver.createEvent(0);
    assert.throws(() => driver.recordEvent(event, driver.createStream(1)), RangeError);
    const imported = driver.importEvent(0, handleOf(1));
    assert.throws(
      () => driver.recordEvent(imported, driver.createStream(0)),
      (error) => hasCode(error, "UNSUPPORTED"),
    );
  });

  it("throws the error of the work before it", () => {
    const { driver } = openFake(failing("cuEventQuery", cuResult.CUDA_ERROR_ILLEGAL_ADDRESS));
    assert.throws(
      () => driver.isEventDone(driver.createEvent(0)),
      (error) => hasCode(error, "DEVICE_LOST"),
    );
  });
});
