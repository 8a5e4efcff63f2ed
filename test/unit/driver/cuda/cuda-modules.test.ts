/** The driver calls for modules and launches, and the errors for their failures. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import { CudaError } from "../../../../src/base/errors.js";
import { createCudaDriver } from "../../../../src/driver/cuda/cuda-driver.js";
import type { DriverKernel, LaunchOptions } from "../../../../src/driver/kernel-calls.js";
import { cuDeviceAttribute } from "../../../../src/ffi/cuda-constants.js";
import type { LoadLibrary } from "../../../../src/ffi/libcuda.js";
import { viewAt } from "../../../../src/os/host-memory.js";
import { FakeLibcuda, type FakeOptions } from "./fake-libcuda.js";

const one: LaunchOptions = { grid: [1, 1, 1], block: [1, 1, 1], sharedBytes: 0 };
const bytesOf = (text: string): Uint8Array => new TextEncoder().encode(text);

interface Rig {
  readonly fake: FakeLibcuda;
  readonly driver: ReturnType<typeof createCudaDriver>;
  readonly kernel: DriverKernel;
  /** The arguments of the last call of each function of libcuda. */
  readonly last: Map<string, unknown[]>;
}

/** Opens a driver on a libcuda that records calls, with a kernel `k` of an image. */
function open(options: FakeOptions = {}, image = ".entry k(.param .u64 a)"): Rig {
  const attributes = {
    [cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X]: 1024,
    ...options.attributes,
  };
  const fake = new FakeLibcuda({ ...options, attributes });
  const last = new Map<string, unknown[]>();
  const load: LoadLibrary = (name) => ({
    func: (symbol, ...types) => {
      const call = fake.load(name).func(symbol, ...types) as (...values: unknown[]) => unknown;
      return (...values: unknown[]) => {
        last.set(symbol, values);
        return call(...values);
      };
    },
  });
  const driver = createCudaDriver({ load });
  const kernel = driver.findKernel(driver.loadModule(0, bytesOf(image)), "k");
  return { fake, driver, kernel, last };
}

const failing = (call: string, status: number): FakeOptions => ({
  status: (name) => (name === call ? status : undefined),
});
/** Like a driver before CUDA 12.4. */
const old: FakeOptions = { missing: ["cuFuncGetParamInfo", "cuFuncLoad"] };

describe("modules of the CUDA driver", () => {
  it("takes the parameters from the driver, or from the PTX, or leaves them unknown", () => {
    const [eight, four] = [
      { byteOffset: 0, byteLength: 8 },
      { byteOffset: 0, byteLength: 4 },
    ];
    assert.deepEqual(open({}, ".entry k(.param .u32 a)").kernel.parameters, [eight]);
    assert.deepEqual(open(old, ".entry k(.param .u32 a)").kernel.parameters, [four]);
    assert.equal(open(old, ".entry k(.param .texref a)").kernel.parameters, undefined);
    assert.equal(open(old, ".entry other()").kernel.parameters, undefined);
  });

  it("loads a kernel in findKernel() if the driver has cuFuncLoad", () => {
    assert.ok(open().fake.calls.includes("cuFuncLoad"));
    const { fake, driver } = open(old);
    const stream = driver.createStream(0);
    assert.ok(fake.calls.includes("cuModuleGetFunction"));
    assert.equal(driver.isIdle(stream), true);
  });

  it("passes zeros beyond the arguments of a kernel of unknown parameters, after any earlier launch", () => {
    const { driver, kernel, last } = open(old, ".entry other()");
    const stream = driver.createStream(0);
    driver.launchKernel(
      stream,
      kernel,
      one,
      Array.from({ length: 5 }, () => new Uint8Array(8).fill(0xee)),
    );
    driver.launchKernel(stream, kernel, one, [Uint8Array.of(1, 2, 3)]);
    const table = new BigUint64Array(
      viewAt(last.get("cuLaunchKernel")?.[9] as bigint, 8 * 1024).buffer,
    );
    assert.deepEqual([...viewAt(table[0] as bigint, 3)], [1, 2, 3]);
    for (const address of table.subarray(1))
      assert.deepEqual([...viewAt(address, 8)], [0, 0, 0, 0, 0, 0, 0, 0]);
  });

  it("passes each argument, after launches with other sizes and counts", () => {
    const { driver, kernel, last } = open(old, ".entry other()");
    const stream = driver.createStream(0);
    let value = 0;
    for (const sizes of [
      [4, 4, 8],
      [20, 4, 8],
      [3],
      [20, 4, 8],
      [4, 4, 8],
      [8, 17, 16, 1, 40],
      [8, 16],
    ]) {
      const args = sizes.map((byteLength) => {
        value += 1;
        return new Uint8Array(byteLength).fill(value);
      });
      driver.launchKernel(stream, kernel, one, args);
      const table = new BigUint64Array(
        viewAt(last.get("cuLaunchKernel")?.[9] as bigint, 8 * 1024).buffer,
      );
      for (const [index, bytes] of args.entries()) {
        assert.deepEqual(
          [...viewAt(table[index] as bigint, bytes.byteLength)],
          [...bytes],
          `${sizes}: ${index}`,
        );
        assert.equal((table[index] as bigint) % 16n, 0n);
      }
      for (const address of table.subarray(args.length))
        assert.deepEqual([...viewAt(address, 8)], new Array(8).fill(0));
    }
  });

  it("refuses more arguments than any kernel can have", () => {
    const { driver, kernel } = open(old, ".entry other()");
    const stream = driver.createStream(0);
    const most = Array.from({ length: 1024 }, () => new Uint8Array(31));
    driver.launchKernel(stream, kernel, one, most);
    const tooMany = [[...most, Uint8Array.of(1)], [new Uint8Array(32_765)]];
    for (const args of tooMany)
      assert.throws(() => driver.launchKernel(stream, kernel, one, args), {
        code: "LIMIT_EXCEEDED",
      });
    assert.throws(() => driver.launchKernel(stream, kernel, one, [1 as never]), TypeError);
  });

  it("refuses a block larger than the kernel's limit before it calls the driver", () => {
    const { fake, driver, kernel } = open();
    const stream = driver.createStream(0);
    const args = [new Uint8Array(8)];
    driver.launchKernel(stream, kernel, { ...one, block: [64, 1, 1] }, args);
    assert.throws(() => driver.launchKernel(stream, kernel, { ...one, block: [65, 1, 1] }, args), {
      name: "RangeError",
      message: "Cannot launch k: found a block of 65 threads, wanted at most 64 for this kernel",
    });
    assert.equal(fake.calls.filter((name) => name === "cuLaunchKernel").length, 1);
  });

  it("refuses a stream of another device than the module's", () => {
    const { driver, kernel } = open();
    const stream = driver.createStream(1);
    const message = "Cannot launch k on cuda:1: its module is loaded on cuda:0";
    assert.throws(() => driver.launchKernel(stream, kernel, one, [new Uint8Array(8)]), {
      name: "TypeError",
      message,
    });
  });

  const refused: readonly [status: number, code: string, words: RegExp][] = [
    [200, "INVALID_MODULE", /CUDA_ERROR_INVALID_IMAGE/],
    [209, "INVALID_MODULE", /compiled for another architecture/],
    [218, "INVALID_MODULE", /CUDA_ERROR_INVALID_PTX/],
    [222, "INVALID_MODULE", /newer than this driver; compile for the device itself/],
    [221, "CUDA_ERROR", /libnvidia-ptxjitcompiler is not installed/],
    [2, "OUT_OF_MEMORY", /CUDA_ERROR_OUT_OF_MEMORY/],
  ];
  for (const [status, code, words] of refused) {
    it(`explains status ${status} of loading a module`, () => {
      const attempt = () => open(failing("cuModuleLoadDataEx", status));
      assert.throws(
        attempt,
        (error: CudaError) => error.code === code && words.test(error.message),
      );
    });
  }

  const lostStatuses = [
    214, 220, 226, 700, 702, 709, 710, 714, 715, 716, 717, 718, 719, 806, 810, 911,
  ];
  const ofMps = [806, 810];

  /** The error of a stream query with this status. @param mps MPS_ENABLED; undefined if unknown */
  function lossOf(status: number, mps: number | undefined): CudaError {
    const attributes = { [cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_MPS_ENABLED]: mps };
    const { driver } = open({ ...failing("cuStreamQuery", status), attributes });
    const stream = driver.createStream(0);
    try {
      driver.isIdle(stream);
    } catch (error) {
      assert.ok(error instanceof CudaError && error.code === "DEVICE_LOST", String(status));
      return error;
    }
    assert.fail(`${status} was no failure`);
  }

  it("says that the context is lost, and what to do, for every status that ends it", () => {
    for (const status of lostStatuses.filter((it) => !ofMps.includes(it))) {
      const { message, remedy } = lossOf(status, 0);
      assert.match(message, /context on the device is lost.* restart this process/);
      assert.doesNotMatch(message + remedy, /MPS(?!_)/);
    }
  });

  it("names MPS in the remedy, and blames no kernel of this process, for a client of an MPS server", () => {
    const losses = [
      ...lostStatuses.map((status) => lossOf(status, 1)),
      ...ofMps.map((status) => lossOf(status, 0)),
    ];
    for (const { message, remedy } of losses) {
      assert.match(
        message,
        /context on the device is lost.*; under MPS that happens to every client/,
      );
      assert.doesNotMatch(message, /a kernel touched memory/);
      assert.match(
        remedy,
        /^Start this process again, open by name and go on: a client of its MPS server .* unharmed\.$/,
      );
    }
  });

  it("says that MPS may be the cause if the driver does not tell and a server's pipe exists", () => {
    const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-pipes-"));
    const before = process.env.CUDA_MPS_PIPE_DIRECTORY;
    process.env.CUDA_MPS_PIPE_DIRECTORY = folder;
    try {
      assert.doesNotMatch(lossOf(700, undefined).message, /MPS server/);
      writeFileSync(join(folder, "control"), "");
      assert.match(
        lossOf(700, undefined).message,
        /an MPS server listens in .*: if it serves this process/,
      );
      assert.doesNotMatch(lossOf(700, 0).message, /MPS server/);
    } finally {
      if (before === undefined) delete process.env.CUDA_MPS_PIPE_DIRECTORY;
      else process.env.CUDA_MPS_PIPE_DIRECTORY = before;
      rmSync(folder, { recursive: true });
    }
  });
});
