/**
 * Code on a real GPU: loading, refusals, launches, and a kernel's fault, which harms only its own
 * process.
 */
import assert from "node:assert/strict";
import { after, before, describe, it, type TestContext } from "node:test";
import type { Stream } from "../../src/doors/interop.js";
import { arg, Module, Program } from "../../src/doors/kernels.js";
import { CudaIpcError, Device, DeviceArray } from "../../src/index.js";
import { whyNoGpu } from "../conformance/gpu-presence.js";
import { brokenImage, kernelImage } from "../conformance/kernel-image.js";
import { Actor } from "../support/actor.js";
import { Disposables } from "../support/disposables.js";
import { checkLeaks } from "../support/leak-check.js";
import { whyNotUnderMps } from "../support/mps-server.js";
import { whyNoNvrtc } from "../support/nvrtc.js";

const DOUBLE = `extern "C" __global__ void doubled(int *x, unsigned n) {
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= 2;
}
extern "C" __global__ void axpy(float *y, const float *x, float a, double b, unsigned char n) {
  if (threadIdx.x < n) y[threadIdx.x] += (float)(a * x[threadIdx.x] + b);
}
`;

describe("kernels on cuda:0", { skip: whyNoGpu() ?? false }, () => {
  const things = new Disposables();
  let device: Device;
  before(() => {
    device = Device.open("cuda:0");
  });
  after(() => device.close());
  checkLeaks(() => things.end());

  const stream = (): Stream => things.add(device.createStream());
  const load = (image: string | Uint8Array): Module => things.add(Module.load(device, image));
  const numbers = async (count: number) => {
    const array = things.add(DeviceArray.allocate(device, { dtype: "int32", shape: [count] }));
    await array.write(Int32Array.from({ length: count }, (_, i) => 100 + i));
    return array;
  };

  it("loads PTX, runs it on an array, and gets every element right", async () => {
    const count = 1_000_003;
    const [array, queue] = [await numbers(count), stream()];
    const kernel = load(kernelImage).kernel("add");
    const grid = Math.ceil(count / 256);
    kernel.launch({ grid, block: 256, args: [array, arg.u32(count), arg.u32(7)], stream: queue });
    await queue.synchronize();
    const found = await array.read();
    assert.equal(
      found.findIndex((value, i) => value !== 107 + i),
      -1,
    );
  });

  it("refuses PTX with a syntax error, with the driver's log and the line", (t: TestContext) => {
    assert.throws(
      () => Module.load(device, brokenImage),
      (error: CudaIpcError) => {
        t.diagnostic(error.message);
        return error.code === "INVALID_MODULE" && /line 7\b/.test(error.message);
      },
    );
  });

  it("says that the PTX is newer than the driver", (t: TestContext) => {
    const image = kernelImage.replace(".version 7.0", ".version 99.0");
    assert.throws(
      () => Module.load(device, image),
      (error: CudaIpcError) => {
        t.diagnostic(error.message);
        return error.code === "INVALID_MODULE";
      },
    );
  });

  it("refuses a missing kernel and wrong arguments, and the device still works", async () => {
    const [array, queue, module] = [await numbers(4), stream(), load(kernelImage)];
    assert.throws(() => module.kernel("subtract"), {
      code: "KERNEL_NOT_FOUND",
      message: /it has add, store, shape$/,
    });
    const launch = { grid: 1, block: 4, stream: queue };
    const kernel = module.kernel("add");
    for (const args of [
      [array],
      [array, arg.u32(4), arg.f64(1)],
      [array, arg.u32(4), arg.u32(1), arg.u32(1)],
    ]) {
      assert.throws(() => kernel.launch({ ...launch, args }), { code: "KERNEL_ARGUMENTS" });
    }
    const block = kernel.threadsPerBlockMax + 1;
    const tooMany = { ...launch, block, args: [array, arg.u32(4), arg.u32(1)] };
    assert.throws(() => kernel.launch(tooMany), RangeError);
    await queue.synchronize();
    assert.deepEqual([...(await array.read())], [100, 101, 102, 103]);
  });

  const skip = whyNotUnderMps();
  it("throws DEVICE_LOST with a remedy after an illegal address, and harms no other process", {
    skip,
  }, async () => {
    const [array, queue] = [await numbers(4), stream()];
    await using actor = new Actor(new URL("actors/touches-nothing.js", import.meta.url));
    const [first, second] = (await actor.says()) as { code: string; message: string }[];
    assert.deepEqual(
      [first?.code, second?.code],
      ["DEVICE_LOST", "DEVICE_LOST"],
      JSON.stringify([first, second]),
    );
    assert.match(
      first?.message ?? "",
      /ILLEGAL_ADDRESS.*context on the device is lost.*restart this process/,
    );
    assert.equal(await actor.exited(), 0);
    load(kernelImage)
      .kernel("add")
      .launch({ grid: 1, block: 4, args: [array, arg.u32(4), arg.u32(1)], stream: queue });
    await queue.synchronize();
    assert.deepEqual([...(await array.read())], [101, 102, 103, 104]);
  });

  describe("compiled at run time", { skip: whyNoNvrtc() ?? false }, () => {
    it("for the device: loads as a cubin on any driver, and doubles an array", async () => {
      const program = await Program.compile(DOUBLE, { device });
      const module = things.add(program.load(device));
      assert.deepEqual([...(module.kernelNames ?? [])].sort(), ["axpy", "doubled"]);
      const [array, queue] = [await numbers(100_000), stream()];
      module
        .kernel("doubled")
        .launch({ grid: 32, block: 128, args: [array, arg.u32(100_000)], stream: queue });
      await queue.synchronize();
      const found = await array.read();
      assert.equal(
        found.findIndex((value, i) => value !== 2 * (100 + i)),
        -1,
      );
    });

    it("passes floats of both widths and a byte unchanged", async () => {
      const module = things.add((await Program.compile(DOUBLE, { device })).load(device));
      const [x, y] = [1, 2].map(() =>
        things.add(DeviceArray.allocate(device, { dtype: "float32", shape: [8] })),
      );
      assert.ok(x !== undefined && y !== undefined);
      await x.write(Float32Array.from({ length: 8 }, (_, i) => i));
      await y.write(new Float32Array(8).fill(1));
      const queue = stream();
      const args = [y, x, arg.f32(0.5), arg.f64(0.25), arg.u8(6)];
      module.kernel("axpy").launch({ grid: 1, block: 32, args, stream: queue });
      await queue.synchronize();
      assert.deepEqual([...(await y.read())], [1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 1, 1]);
    });

    it("for any device: loads as PTX, or says that the driver is older", async (t: TestContext) => {
      const program = await Program.compile(DOUBLE);
      try {
        things.add(program.load(device));
        t.diagnostic(`${program.arch} loads`);
      } catch (error) {
        assert.ok(error instanceof CudaIpcError && error.code === "INVALID_MODULE");
        assert.match(error.message, /newer than this driver/);
        t.diagnostic(error.message);
      }
    });
  });
});
