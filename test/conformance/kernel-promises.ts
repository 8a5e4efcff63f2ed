import assert from "node:assert/strict";
import { it, type TestContext } from "node:test";
import { type CudaIpcError, hasCode } from "../../src/base/errors.js";
import type { DriverStream } from "../../src/driver/gpu-driver.js";
import type { Dimensions, DriverKernel, LaunchOptions } from "../../src/driver/kernel-calls.js";
import type { ConformanceRig } from "./conformance-rig.js";
import type { Subject } from "./describe-conformance.js";
import { brokenImage, bytesOf, kernelImage } from "./kernel-image.js";

function u32(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}

function u64(value: bigint): Uint8Array {
  return new Uint8Array(BigUint64Array.of(value).buffer);
}

const shape = (grid: Dimensions, block: Dimensions, sharedBytes = 0): LaunchOptions => ({
  grid,
  block,
  sharedBytes,
});
const one = shape([1, 1, 1], [1, 1, 1]);

export function kernelPromises({ rig }: Subject): void {
  /** A test for devices that run code. */
  const onGpu = (name: string, test: (rig: ConformanceRig) => void | Promise<void>): void => {
    it(name, (t: TestContext) => {
      if (rig().kind === "host") return t.skip("the host device runs no code for GPUs");
      return test(rig());
    });
  };
  const load = (it: ConformanceRig, text = kernelImage) =>
    it.own(it.driver.loadModule(0, bytesOf(text)), (module) => it.driver.unloadModule(module));
  const find = (it: ConformanceRig, name: string): DriverKernel =>
    it.driver.findKernel(load(it), name);

  it("throws UNSUPPORTED on a device that runs no code", () => {
    const { driver, kind } = rig();
    if (kind !== "host") return;
    const attempt = () => driver.loadModule(0, bytesOf(kernelImage));
    assert.throws(
      attempt,
      (error) => hasCode(error, "UNSUPPORTED") && /host device/.test(error.message),
    );
  });

  onGpu("loads a module, and lists its kernels and their parameters", (it) => {
    const module = load(it);
    assert.deepEqual(module.kernelNames, ["add", "store", "shape"]);
    const { parameters, threadsPerBlockMax, name } = it.driver.findKernel(module, "store");
    assert.equal(name, "store");
    assert.ok(threadsPerBlockMax > 0 && threadsPerBlockMax <= 1024);
    assert.deepEqual(
      parameters?.map(({ byteLength }) => byteLength),
      [8, 1, 2, 4, 8, 8, 12],
    );
  });

  onGpu("does not read beyond the image", (it) => {
    const text = kernelImage;
    const inside = bytesOf(`${text}// kernel beyond 8\n.visible .entry beyond() { ret; }\n`);
    const module = it.driver.loadModule(0, inside.subarray(0, bytesOf(text).byteLength));
    it.own(module, (module) => it.driver.unloadModule(module));
    assert.throws(() => it.driver.findKernel(module, "beyond"), { code: "KERNEL_NOT_FOUND" });
  });

  onGpu("runs a kernel on memory, in the stream's order", async (it) => {
    const kernel = find(it, "add");
    const { pointer } = it.buffer(1);
    const [stream, words] = [it.stream(), it.words()];
    const count = 1000;
    it.wait(stream, words, 0, 1n);
    it.driver.fill(stream, pointer, { elementBytes: 4, value: 5 }, count + 1);
    for (const value of [10, 0xffff_fff0]) {
      const args = [u64(pointer), u32(count), u32(value)];
      it.driver.launchKernel(stream, kernel, shape([4, 1, 1], [256, 1, 1]), args);
      // Later changes of the arguments have no effect.
      for (const bytes of args) bytes.fill(0xff);
    }
    assert.equal(it.driver.isIdle(stream), false);
    Atomics.store(words.cpu, 0, 1n);
    await it.done(stream);
    const found = new Uint32Array((await it.read(pointer, 4 * (count + 1))).buffer);
    assert.deepEqual([found[0], found[count - 1], found[count]], [0xffff_ffff, 0xffff_ffff, 5]);
    assert.equal(new Set(found.subarray(0, count)).size, 1);
  });

  onGpu("passes arguments of any size unchanged", async (it) => {
    const kernel = find(it, "store");
    const { pointer } = it.buffer(1);
    const [float, double] = [
      new Uint8Array(Float32Array.of(1.5).buffer),
      new Uint8Array(Float64Array.of(-2.25).buffer),
    ];
    const struct = Uint8Array.from({ length: 12 }, (_, i) => 0xe0 + i);
    const values = [
      Uint8Array.of(0xab),
      Uint8Array.of(1, 0x80),
      float,
      double,
      u64(2n ** 64n - 2n),
      struct,
    ];
    const stream = it.stream();
    it.driver.fill(stream, pointer, { elementBytes: 1, value: 0 }, 128);
    it.driver.launchKernel(stream, kernel, one, [u64(pointer), ...values]);
    await it.done(stream);
    const found = await it.read(pointer, 128);
    values.forEach((bytes, index) => {
      const at = 16 * (index + 1);
      assert.deepEqual(found.slice(at, at + bytes.byteLength), bytes, `argument ${index + 1}`);
    });
  });

  onGpu("launches with the requested grid, block and shared memory", async (it) => {
    const { pointer } = it.buffer(1);
    const stream = it.stream();
    it.driver.launchKernel(stream, find(it, "shape"), shape([5, 3, 2], [4, 2, 8], 1024), [
      u64(pointer),
    ]);
    await it.done(stream);
    const found = new Uint32Array((await it.read(pointer, 28)).buffer);
    assert.deepEqual([...found], [5, 3, 2, 4, 2, 8, 1024]);
  });

  onGpu("refuses arguments that do not match the kernel, and names them", (it) => {
    const kernel = find(it, "add");
    const stream = it.stream();
    const cases: readonly [args: readonly Uint8Array[], message: string][] = [
      [[], "Cannot launch add: found 0 arguments, wanted 3"],
      [[u64(0n), u32(0)], "Cannot launch add: found 2 arguments, wanted 3"],
      [[u64(0n), u32(0), u32(0), u32(0)], "Cannot launch add: found 4 arguments, wanted 3"],
      [[u64(0n), u64(0n), u32(0)], "Cannot launch add: argument 1 has 8 bytes, wanted 4"],
      [[u32(0), u32(0), u32(0)], "Cannot launch add: argument 0 has 4 bytes, wanted 8"],
    ];
    for (const [args, message] of cases) {
      const attempt = () => it.driver.launchKernel(stream, kernel, one, args);
      assert.throws(attempt, { code: "KERNEL_ARGUMENTS", message });
    }
  });

  onGpu("refuses sizes that the device does not have with RangeError", (it) => {
    const kernel = find(it, "shape");
    const stream = it.stream();
    const tooMany: readonly LaunchOptions[] = [
      shape([0, 1, 1], [1, 1, 1]),
      shape([1, 70_000, 1], [1, 1, 1]),
      shape([2 ** 31, 1, 1], [1, 1, 1]),
      shape([1, 1, 1.5], [1, 1, 1]),
      shape([1, 1, 1], [1, 1, 65]),
      shape([1, 1, 1], [0, 1, 1]),
      shape([1, 1, 1], [1024, 2, 1]),
      shape([1, 1, 1], [1, 1, 1], -1),
      shape([1, 1, 1], [1, 1, 1], 2 ** 20),
    ];
    for (const options of tooMany) {
      const attempt = () => it.driver.launchKernel(stream, kernel, options, [u64(0n)]);
      assert.throws(attempt, RangeError, JSON.stringify(options));
    }
  });

  onGpu("lists the kernels of the module if one is missing", (it) => {
    const module = load(it);
    const message = 'Cannot find kernel "subtract": not in the module; it has add, store, shape';
    assert.throws(() => it.driver.findKernel(module, "subtract"), {
      code: "KERNEL_NOT_FOUND",
      message,
    });
    for (const name of ["", "add\0"])
      assert.throws(() => it.driver.findKernel(module, name), name === "" ? Error : TypeError);
  });

  onGpu("refuses broken PTX with the driver's log, which names the line", (it) => {
    const isRefused = (error: CudaIpcError) =>
      error.code === "INVALID_MODULE" && /line 7\b/.test(error.message);
    assert.throws(() => it.driver.loadModule(0, bytesOf(brokenImage)), isRefused);
  });

  onGpu("refuses data that is not a module", (it) => {
    for (const image of [
      "",
      "  \n",
      "not a module",
      "\x7fELF",
      "\0\0\0\0",
      "// module\0// module",
    ]) {
      assert.throws(
        () => it.driver.loadModule(0, bytesOf(image)),
        { code: "INVALID_MODULE" },
        JSON.stringify(image),
      );
    }
    assert.throws(() => it.driver.loadModule(0, Uint8Array.of(0xb1, 0x43, 0x62, 0x46)), {
      code: "INVALID_MODULE",
    });
    assert.throws(() => it.driver.loadModule(0, "text" as never), TypeError);
  });

  onGpu("refuses modules, kernels and streams that have ended or are another driver's", (it) => {
    const { driver } = it;
    const module = driver.loadModule(0, bytesOf(kernelImage));
    const kernel = driver.findKernel(module, "shape");
    const [stream, ended] = [it.stream(), driver.createStream(0)];
    driver.destroyStream(ended);
    assert.throws(() => driver.launchKernel(ended, kernel, one, [u64(0n)]), { code: "CLOSED" });
    driver.unloadModule(module);
    assert.throws(() => driver.launchKernel(stream, kernel, one, [u64(0n)]), { code: "CLOSED" });
    assert.throws(() => driver.findKernel(module, "add"), { code: "CLOSED" });
    assert.throws(() => driver.unloadModule(module), { code: "CLOSED" });
    const foreign = { ordinal: 0, kernelNames: [] };
    assert.throws(() => driver.findKernel(foreign, "add"), TypeError);
    assert.throws(() => driver.unloadModule(foreign), TypeError);
    assert.throws(
      () => driver.launchKernel({ ordinal: 0 } as DriverStream, kernel, one, []),
      TypeError,
    );
    const stranger = { name: "add", parameters: [], threadsPerBlockMax: 1 };
    assert.throws(() => driver.launchKernel(stream, stranger, one, []), TypeError);
  });
}
