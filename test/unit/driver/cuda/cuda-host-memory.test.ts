import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { CudaError } from "../../../../src/base/errors.js";
import { createCudaDriver } from "../../../../src/driver/cuda/cuda-driver.js";
import { cuResult } from "../../../../src/ffi/cuda-constants.js";
import { FakeLibcuda } from "./fake-libcuda.js";

const ADDRESS = 0x5000_0000n;

function calls(fake: FakeLibcuda, name: string): number {
  return fake.calls.filter((call) => call === name).length;
}

describe("host memory of the CUDA driver", () => {
  it("registers memory once for all devices, and unregisters it after the last", () => {
    const fake = new FakeLibcuda();
    const driver = createCudaDriver({ load: fake.load });
    driver.registerHostMemory(0, ADDRESS, 4096, "read-write");
    driver.registerHostMemory(1, ADDRESS, 4096, "read-write");
    assert.equal(calls(fake, "cuMemHostRegister"), 1);
    assert.throws(() => driver.registerHostMemory(1, ADDRESS, 4096, "read-write"), RangeError);
    driver.unregisterHostMemory(0, ADDRESS);
    assert.equal(fake.live.registrations, 1);
    driver.unregisterHostMemory(1, ADDRESS);
    assert.equal(fake.live.registrations, 0);
  });

  it("refuses registered memory with another size or access", () => {
    const fake = new FakeLibcuda();
    const driver = createCudaDriver({ load: fake.load });
    driver.registerHostMemory(0, ADDRESS, 4096, "read-write");
    assert.throws(() => driver.registerHostMemory(1, ADDRESS, 8192, "read-write"), RangeError);
    assert.throws(() => driver.registerHostMemory(1, ADDRESS, 4096, "read"), RangeError);
    assert.throws(() => driver.registerHostMemory(0, ADDRESS + 8n, 4096, "read-write"), RangeError);
    assert.equal(fake.live.registrations, 1);
  });

  it("undoes a registration if its device address cannot be read", () => {
    const fake = new FakeLibcuda({
      status: (name) => (name === "cuMemHostGetDevicePointer" ? 801 : undefined),
    });
    const driver = createCudaDriver({ load: fake.load });
    const attempt = () => driver.registerHostMemory(0, ADDRESS, 4096, "read");
    assert.throws(attempt, (error: CudaError) => error.code === "UNSUPPORTED");
    assert.throws(attempt, (error: CudaError) => error.code === "UNSUPPORTED");
    assert.equal(fake.live.registrations, 0);
  });

  it("passes words unchanged as 64 bits", () => {
    const fake = new FakeLibcuda();
    const driver = createCudaDriver({ load: fake.load });
    const stream = driver.createStream(0);
    driver.waitWord(stream, 4096n, -1n);
    driver.writeWord(stream, 4096n, -(2n ** 63n));
    driver.writeWord(stream, 4096n, 5n);
    assert.deepEqual(fake.words, [2n ** 64n - 1n, 2n ** 63n, 5n]);
  });

  it("makes the context current if the driver wants it, and calls again", () => {
    const fake = new FakeLibcuda({
      status: (name, nth) =>
        name.endsWith("Value64") && nth === 1 ? cuResult.CUDA_ERROR_INVALID_CONTEXT : undefined,
    });
    const driver = createCudaDriver({ load: fake.load });
    const stream = driver.createStream(0);
    for (const [name, call] of [
      ["cuStreamWriteValue64", () => driver.writeWord(stream, 4096n, 5)],
      ["cuStreamWaitValue64", () => driver.waitWord(stream, 4096n, 6n)],
    ] as const) {
      const before = fake.calls.length;
      call();
      assert.deepEqual(fake.calls.slice(before), [
        name,
        "cuCtxPushCurrent",
        name,
        "cuCtxPopCurrent",
      ]);
    }
    assert.deepEqual(fake.words, [5n, 6n]);
  });

  it("refuses writes to read-only words before it calls the driver", () => {
    const fake = new FakeLibcuda();
    const driver = createCudaDriver({ load: fake.load });
    const stream = driver.createStream(0);
    const words = driver.registerHostMemory(0, ADDRESS, 4096, "read");
    driver.waitWord(stream, words, 1n);
    assert.throws(
      () => driver.writeWord(stream, words, 1n),
      (error: CudaError) => error.code === "READ_ONLY",
    );
    assert.equal(calls(fake, "cuStreamWriteValue64"), 0);
    driver.unregisterHostMemory(0, ADDRESS);
    driver.writeWord(stream, words, 1n);
  });
});
