import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaError, CudaIpcError, hasCode } from "../../../../src/base/errors.js";
import { createCudaDriver } from "../../../../src/driver/cuda/cuda-driver.js";
import { libcudaNames, libcudaSymbols } from "../../../../src/ffi/libcuda.js";
import { FakeLibcuda, type FakeOptions } from "./fake-libcuda.js";

const CUDA_ERROR_UNKNOWN_TO_US = 12_345;

function start(options: FakeOptions): () => unknown {
  return () => createCudaDriver({ load: new FakeLibcuda(options).load });
}

describe("createCudaDriver", () => {
  it("names every library it tried, and why each failed", () => {
    const load = (name: string) => {
      throw new Error(`no ${name} today`);
    };
    assert.throws(
      () => createCudaDriver({ load }),
      (error: CudaIpcError) => {
        assert.equal(error.code, "DRIVER_NOT_FOUND");
        for (const name of libcudaNames)
          assert.ok(error.message.includes(`${name} (no ${name} today)`));
        return true;
      },
    );
  });

  it("opens the second library if the first is missing", () => {
    const fake = new FakeLibcuda();
    const tried: string[] = [];
    const load = (name: string) => {
      tried.push(name);
      if (name === "libcuda.so.1") throw new Error("not there");
      return fake.load(name);
    };
    createCudaDriver({ load }).close();
    assert.deepEqual(tried, ["libcuda.so.1", "libcuda.so"]);
  });

  it("works without functions that only newer drivers have", () => {
    const newer = Object.values(libcudaSymbols).filter(({ since }) => since !== undefined);
    assert.notEqual(newer.length, 0);
    createCudaDriver({
      load: new FakeLibcuda({ missing: newer.map(({ symbol }) => symbol) }).load,
    }).close();
  });

  it("names a missing symbol and the driver's version", () => {
    for (const { symbol, since } of Object.values(libcudaSymbols)) {
      if (since !== undefined) continue;
      const version = symbol === "cuDriverGetVersion" ? "unknown" : "11.4";
      assert.throws(start({ version: 11_040, missing: [symbol] }), (error: CudaIpcError) => {
        assert.equal(error.code, "DRIVER_TOO_OLD");
        assert.equal(
          error.message,
          `Cannot use the CUDA driver: it is of version ${version} and lacks ${symbol}`,
        );
        return true;
      });
    }
  });

  const failures: readonly [status: number, code: string, words: RegExp][] = [
    [100, "DEVICE_NOT_FOUND", /cuInit failed with CUDA_ERROR_NO_DEVICE \(100\); there is no GPU/],
    [34, "DRIVER_NOT_FOUND", /CUDA_ERROR_STUB_LIBRARY \(34\); this libcuda is the toolkit's stub/],
    [36, "DRIVER_TOO_OLD", /CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER/],
    [803, "CUDA_ERROR", /have different versions/],
    [999, "CUDA_ERROR", /CUDA_ERROR_UNKNOWN \(999\)/],
    [CUDA_ERROR_UNKNOWN_TO_US, "CUDA_ERROR", /an unknown status \(12345\)/],
  ];
  for (const [status, code, words] of failures) {
    it(`throws ${code} if cuInit fails with ${status}`, () => {
      const failing = { status: (name: string) => (name === "cuInit" ? status : undefined) };
      assert.throws(start(failing), (error: CudaError) => {
        assert.ok(error instanceof CudaError);
        assert.equal(error.code, code);
        assert.equal(error.status, status);
        assert.equal(error.call, "cuInit");
        assert.match(error.message, words);
        return true;
      });
    });
  }

  it("retains one context per device, at the first use of the device", () => {
    const fake = new FakeLibcuda();
    const driver = createCudaDriver({ load: fake.load });
    assert.equal(driver.deviceCount(), 2);
    driver.describeDevice(1);
    assert.equal(fake.live.contexts, 0);
    const current = [0, 1, 0].map((ordinal) => {
      driver.memoryInfo(ordinal);
      return fake.lastPopped;
    });
    assert.equal(fake.live.contexts, 2);
    assert.equal(current[0], current[2]);
    assert.notEqual(current[0], current[1]);
    driver.close();
    assert.equal(fake.live.contexts, 0);
  });

  it("releases every context in close(), also if one release fails", () => {
    const fake = new FakeLibcuda({
      status: (name, nth) => (name === "cuDevicePrimaryCtxRelease" && nth === 1 ? 1 : undefined),
    });
    const driver = createCudaDriver({ load: fake.load });
    driver.memoryInfo(0);
    driver.memoryInfo(1);
    assert.throws(
      () => driver.close(),
      (error) => hasCode(error, "CUDA_ERROR"),
    );
    assert.equal(fake.live.contexts, 0);
    driver.close();
    assert.throws(
      () => driver.deviceCount(),
      (error) => error instanceof CudaIpcError && error.code === "CLOSED",
    );
  });
});
