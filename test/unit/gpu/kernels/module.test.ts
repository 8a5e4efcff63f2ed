/** Modules and kernels with the libcuda substitute written in C. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { DeviceArray } from "../../../../src/gpu/arrays/device-array.js";
import { Device } from "../../../../src/gpu/device.js";
import { arg } from "../../../../src/gpu/kernels/kernel-arguments.js";
import { Module } from "../../../../src/gpu/kernels/module.js";
import type { Stream } from "../../../../src/gpu/order/stream.js";
import { Mapping } from "../../../../src/os/mapping.js";
import { brokenImage, kernelImage } from "../../../conformance/kernel-image.js";
import { Disposables } from "../../../support/disposables.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { expectLibcudaInC, skipLibcudaInC } from "../../../support/libcuda-in-c.js";
import { type CountingDriver, createCountingDriver } from "../../../support/live-counts.js";

describe("Module and Kernel", { skip: skipLibcudaInC() }, () => {
  const things = new Disposables();
  let counting: CountingDriver;
  let device: Device;

  before(() => {
    counting = createCountingDriver(expectLibcudaInC().openDriver());
    device = Device.open("cuda:0", () => counting.driver);
  });
  after(() => device.close());
  checkLeaks(() => {
    things.end();
    const { mappings, memories, modules, registrations } = counting.counts();
    assert.deepEqual(
      { mappings, memories, modules, registrations },
      { mappings: 0, memories: 0, modules: 0, registrations: 0 },
    );
  });

  const stream = (): Stream => things.add(device.createStream());
  const words = (count: number) =>
    things.add(DeviceArray.allocate(device, { dtype: "uint32", shape: [count] }));

  /** A stream that waits until the returned function is called. */
  const waitingStream = (): { stream: Stream; goOn: () => void } => {
    const mapping = things.add(Mapping.anonymous(4096));
    const pointer = device.driver.registerHostMemory(0, mapping.address, 4096, "read-write");
    things.add({ [Symbol.dispose]: () => device.driver.unregisterHostMemory(0, mapping.address) });
    const waiting = stream();
    device.driver.waitWord(waiting.handle, pointer, 1n);
    const word = new BigInt64Array(mapping.view(0, 8).buffer);
    return { stream: waiting, goOn: () => Atomics.store(word, 0, 1n) };
  };

  it("launches a kernel on an array and reads its result", async () => {
    const [array, queue] = [words(300), stream()];
    await array.write(Uint32Array.from({ length: 300 }, (_, i) => i));
    const module = things.add(Module.load(device, kernelImage, { label: "sums" }));
    const kernel = module.kernel("add");
    kernel.launch({
      grid: 3,
      block: [100],
      args: [array, arg.u32(300), arg.u32(7)],
      stream: queue,
    });
    await queue.synchronize();
    assert.deepEqual(
      await array.read(),
      Uint32Array.from({ length: 300 }, (_, i) => i + 7),
    );
    assert.equal(kernel.name, "add");
    assert.deepEqual(
      kernel.parameters?.map((it) => it.byteLength),
      [8, 4, 4],
    );
    assert.equal(kernel.threadsPerBlockMax, 512);
    assert.deepEqual(module.kernelNames, ["add", "store", "shape"]);
  });

  it("accepts sizes in one, two and three dimensions, and shared memory", async () => {
    const module = things.add(Module.load(device, new TextEncoder().encode(kernelImage)));
    const [array, queue] = [words(7), stream()];
    const launch = {
      grid: [4, 3] as const,
      block: [2, 1, 5] as const,
      args: [array],
      stream: queue,
      sharedBytes: 64,
    };
    module.kernel("shape").launch(launch);
    await queue.synchronize();
    assert.deepEqual([...(await array.read())], [4, 3, 1, 2, 1, 5, 64]);
    for (const grid of [[], [1, 1, 1, 1]] as never[]) {
      assert.throws(() => module.kernel("shape").launch({ ...launch, grid }), TypeError);
    }
    assert.throws(() => module.kernel("shape").launch({ ...launch, block: 0 }), RangeError);
  });

  it("loads all kernels with the module, so none is loaded while a stream waits", () => {
    const found: unknown[] = [];
    const watched = Object.create(counting.driver, {
      findKernel: {
        value: (...values: Parameters<typeof counting.driver.findKernel>) => {
          found.push(values[1]);
          return counting.driver.findKernel(...values);
        },
      },
      close: { value: () => {} },
    }) as typeof counting.driver;
    using second = Device.open("cuda:0", () => watched);
    using module = Module.load(second, kernelImage);
    assert.deepEqual(found.splice(0), ["add", "store", "shape"]);
    assert.equal(module.kernel("add"), module.kernel("add"));
    assert.deepEqual(found, []);
    using some = Module.load(second, kernelImage, { kernels: ["shape"] });
    assert.deepEqual(found.splice(0), ["shape"]);
    some.kernel("add");
    assert.deepEqual(found, ["add"]);
  });

  it("leaks no module if a kernel is missing or the image is broken", () => {
    assert.throws(() => Module.load(device, kernelImage, { kernels: ["add", "none"] }), {
      code: "KERNEL_NOT_FOUND",
    });
    assert.throws(() => Module.load(device, brokenImage), { code: "INVALID_MODULE" });
    assert.equal(counting.counts().modules, 0);
  });

  it("refuses a closed module, and a stream of another device", () => {
    const module = things.add(Module.load(device, kernelImage, { label: "sums" }));
    const kernel = module.kernel("shape");
    const array = words(7);
    const launch = { grid: 1, block: 1, args: [array] };
    using other = Device.open("host");
    using foreign = other.createStream();
    assert.throws(() => kernel.launch({ ...launch, stream: foreign }), TypeError);
    module.close();
    module.close();
    assert.equal(module.open, false);
    assert.throws(() => module.kernel("add"), {
      code: "CLOSED",
      message: 'Cannot use "sums": it was closed',
    });
    assert.throws(() => kernel.launch({ ...launch, stream: stream() }), { code: "CLOSED" });
  });

  it("keeps memory and module of a launch until its stream was seen idle", async () => {
    const { stream: queue, goOn } = waitingStream();
    const array = words(4);
    const module = Module.load(device, kernelImage);
    const launch = { grid: 1, block: 4, args: [array, arg.u32(4), arg.u32(1)], stream: queue };
    for (let i = 0; i < 3; i += 1) module.kernel("add").launch(launch);
    array.close();
    module.close();
    const { mappings, modules } = counting.counts();
    assert.deepEqual([mappings, modules, queue.isIdle()], [1, 1, false]);
    goOn();
    await queue.synchronize();
    assert.deepEqual([counting.counts().mappings, counting.counts().modules], [0, 0]);
  });

  it("releases memory and module of a launch when its stream is closed", () => {
    const queue = device.createStream();
    const array = words(7);
    const module = Module.load(device, kernelImage);
    module.kernel("shape").launch({ grid: 1, block: 1, args: [array], stream: queue });
    array.close();
    module.close();
    queue.close();
    assert.deepEqual([counting.counts().mappings, counting.counts().modules], [0, 0]);
  });

  it("throws UNSUPPORTED on the host device, with a reason", () => {
    using host = Device.open("host");
    const message = "Cannot load a module on the host device: it runs no code for GPUs";
    assert.throws(() => Module.load(host, kernelImage), { code: "UNSUPPORTED", message });
  });
});
