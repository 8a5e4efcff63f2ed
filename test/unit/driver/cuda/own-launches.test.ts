/** The driver calls for kernels of this project, whose arguments are in reused memory. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { createCudaDriver } from "../../../../src/driver/cuda/cuda-driver.js";
import { ArgumentBlock, checkBlock } from "../../../../src/driver/cuda/launch-arguments.js";
import type { ElementOperation } from "../../../../src/driver/operation-calls.js";
import { cuDeviceAttribute, cuResult } from "../../../../src/ffi/cuda-constants.js";
import type { LoadLibrary } from "../../../../src/ffi/libcuda.js";
import { viewAt } from "../../../../src/os/host-memory.js";
import { FakeLibcuda, type FakeOptions } from "./fake-libcuda.js";

const {
  CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X: MAX_BLOCK,
  CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X: MAX_GRID,
} = cuDeviceAttribute;
const ADDRESS = 0x5_0000_0000n;
const iota = {
  kind: "iota",
  dtype: "float32",
  to: ADDRESS,
  count: 1000,
  start: 0.5,
  step: 2,
} as const;
const affine = {
  kind: "affine",
  dtype: "int64",
  to: ADDRESS,
  from: 8n,
  count: 256,
  a: -1n,
  b: 2n ** 62n,
} as const;

interface Launch {
  /** The name of the kernel. */
  readonly kernel: string | undefined;
  /** Grid, block and shared bytes. */
  readonly sizes: readonly number[];
  readonly table: bigint;
  /** The 8 bytes behind each address of the table. */
  readonly words: readonly bigint[];
}

/** Opens a driver that records its launches, on devices that accept our blocks. */
function open(options: FakeOptions = {}) {
  const fake = new FakeLibcuda({
    threadsPerBlockMax: 1024,
    attributes: { [MAX_BLOCK]: 1024, [MAX_GRID]: 100_000 },
    ...options,
  });
  const launches: Launch[] = [];
  const kernels = new Map<bigint, string>();
  const load: LoadLibrary = (name) => ({
    func: (symbol, ...types) => {
      const call = fake.load(name).func(symbol, ...types) as (...values: unknown[]) => unknown;
      return (...values: unknown[]) => {
        if (symbol === "cuModuleGetFunction") {
          const handle = BigInt(kernels.size + 1);
          (values[0] as BigUint64Array)[0] = handle;
          kernels.set(handle, values[2] as string);
          return 0;
        }
        if (symbol !== "cuLaunchKernel") return call(...values);
        const table = values[9] as bigint;
        const addresses = new BigUint64Array(viewAt(table, 64).slice().buffer);
        const words = [...addresses].map(
          (at) => new BigUint64Array(viewAt(at, 8).slice().buffer)[0] as bigint,
        );
        launches.push({
          kernel: kernels.get(values[0] as bigint),
          sizes: values.slice(1, 8) as number[],
          table,
          words,
        });
        return call(...values);
      };
    },
  });
  const driver = createCudaDriver({ load });
  return { fake, driver, stream: driver.createStream(0), launches };
}

const failing = (status: number, calls: number): FakeOptions => ({
  status: (name, nth) => (name === "cuLaunchKernel" && nth <= calls ? status : undefined),
});

describe("launches of this project's kernels", () => {
  it("pass each kernel its arguments through one table", () => {
    const { driver, stream, launches } = open();
    for (const operation of [iota, affine, { ...iota, count: 2 ** 33, to: ADDRESS + 4n }]) {
      driver.enqueueOperation(stream, operation);
    }
    const [first, second, third] = launches as [Launch, Launch, Launch];
    assert.deepEqual(first.words.slice(0, 2), [ADDRESS, 1000n]);
    const floats = first.words
      .slice(2, 4)
      .map((word) => new Float32Array(BigUint64Array.of(word).buffer)[0]);
    assert.deepEqual(floats, [0.5, 2]);
    assert.deepEqual(second.words.slice(0, 5), [ADDRESS, 8n, 256n, 2n ** 64n - 1n, 2n ** 62n]);
    assert.deepEqual(third.words.slice(0, 2), [ADDRESS + 4n, 2n ** 33n]);
    assert.deepEqual(
      launches.map(({ sizes }) => sizes),
      [4, 1, 16_384].map((blocks) => [blocks, 1, 1, 256, 1, 1, 0]),
    );
    assert.equal(new Set(launches.map(({ table }) => table)).size, 1);
    assert.deepEqual(
      launches.map(({ kernel }) => kernel),
      ["iota_f32", "affine_b64", "iota_f32"],
    );
  });

  it("do not enter the context, unless the driver wants it current", () => {
    for (const status of [
      cuResult.CUDA_ERROR_INVALID_CONTEXT,
      cuResult.CUDA_ERROR_INVALID_HANDLE,
    ]) {
      const { fake, driver, stream } = open(failing(status, 1));
      driver.prepareOperations(0);
      for (const calls of [
        ["cuLaunchKernel", "cuCtxPushCurrent", "cuLaunchKernel", "cuCtxPopCurrent"],
        ["cuLaunchKernel"],
      ]) {
        const before = fake.calls.length;
        driver.enqueueOperation(stream, iota);
        assert.deepEqual(
          fake.calls.slice(before).filter((name) => name !== "cuDeviceGetAttribute"),
          calls,
        );
      }
    }
  });

  it("are retried once and no more", () => {
    const { fake, driver, stream } = open(failing(cuResult.CUDA_ERROR_INVALID_HANDLE, 99));
    const message = /^Cannot launch iota_f32 on cuda:0: /;
    assert.throws(() => driver.enqueueOperation(stream, iota), { name: "CudaError", message });
    assert.equal(fake.calls.filter((name) => name === "cuLaunchKernel").length, 2);
    const lost = open(failing(700, 99));
    assert.throws(
      () => lost.driver.enqueueOperation(lost.stream, iota),
      (error) => hasCode(error, "DEVICE_LOST"),
    );
    assert.equal(lost.fake.calls.filter((name) => name === "cuLaunchKernel").length, 1);
  });

  it("are checked against the limits of kernel and device, for each number of blocks", () => {
    const small = open({ threadsPerBlockMax: 64 });
    const message =
      "Cannot launch iota_f32: found a block of 256 threads, wanted at most 64 for this kernel";
    assert.throws(() => small.driver.enqueueOperation(small.stream, iota), {
      name: "RangeError",
      message,
    });
    const narrow = open({ attributes: { [MAX_BLOCK]: 1024, [MAX_GRID]: 4 } });
    narrow.driver.enqueueOperation(narrow.stream, iota);
    const wide = { ...iota, count: 1025 };
    for (let i = 0; i < 2; i += 1) {
      assert.throws(
        () => narrow.driver.enqueueOperation(narrow.stream, wide),
        /grid x must be an integer from 1 to 4/,
      );
    }
    narrow.driver.enqueueOperation(narrow.stream, iota);
    assert.deepEqual([small.launches.length, narrow.launches.length], [0, 2]);
  });

  it("are refused before anything is loaded if an argument is wrong, also for a count of 0", () => {
    const { fake, driver, stream } = open();
    const wrong: readonly [ElementOperation, RegExp][] = [
      [
        { ...iota, to: ADDRESS + 2n },
        /^RangeError: Address of float32 for iota must be a multiple of 4, not 0x500000002/,
      ],
      [
        { ...affine, from: 4n },
        /^RangeError: Address of int64 for affine must be a multiple of 8, not 0x4/,
      ],
      [{ ...iota, count: -1 }, /^RangeError: Count for iota must be an integer at least 0, not -1/],
      [{ ...iota, count: 0.5 }, /^RangeError: Count for iota must be/],
      [
        { ...affine, count: 2 ** 52 },
        /^RangeError: Bytes for affine must be an integer at least 0/,
      ],
      [{ ...iota, count: 0, start: "1" as never }, /^TypeError: Iota: start must be a number/],
      [{ ...affine, count: 0, b: 2n ** 63n }, /^RangeError: Affine: b must be an integer from/],
      [{ ...iota, kind: "other" as "iota" }, /^TypeError: Unknown operation other/],
    ];
    for (const [operation, message] of wrong)
      assert.throws(() => driver.enqueueOperation(stream, operation), message);
    driver.enqueueOperation(stream, { ...affine, count: 0 });
    assert.equal(fake.calls.includes("cuModuleLoadDataEx"), false);
    driver.destroyStream(stream);
    assert.throws(
      () => driver.enqueueOperation(stream, { ...iota, count: -1 }),
      (error) => hasCode(error, "CLOSED"),
    );
  });
});

describe("ArgumentBlock", () => {
  it("stores each value where its table points", () => {
    const block = new ArgumentBlock();
    const addresses = new BigUint64Array(viewAt(block.table, 64).slice().buffer);
    block.setAll([Uint8Array.of(1, 2, 3, 4), new Uint8Array(8).fill(0xff)]);
    block.setAddress(7, 2n ** 64n - 2n);
    block.setCount(6, 2 ** 40 + 5);
    assert.deepEqual([...viewAt(addresses[0] as bigint, 4)], [1, 2, 3, 4]);
    assert.deepEqual(block.value(0, 4), Uint8Array.of(1, 2, 3, 4));
    const words = [...addresses].map((at) => new BigUint64Array(viewAt(at, 8).slice().buffer)[0]);
    assert.deepEqual(
      [words[1], words[6], words[7]],
      [2n ** 64n - 1n, 2n ** 40n + 5n, 2n ** 64n - 2n],
    );
  });

  it("has room for 8 parameters of 8 bytes", () => {
    const parameter = { byteOffset: 0, byteLength: 8 };
    checkBlock("launch k", undefined);
    checkBlock(
      "launch k",
      Array.from({ length: 8 }, () => parameter),
    );
    for (const parameters of [
      Array.from({ length: 9 }, () => parameter),
      [{ byteOffset: 0, byteLength: 12 }],
    ]) {
      assert.throws(
        () => checkBlock("launch k", parameters),
        (error) =>
          hasCode(error, "KERNEL_ARGUMENTS") &&
          /^Cannot launch k: found parameters of /.test(error.message),
      );
    }
  });
});
