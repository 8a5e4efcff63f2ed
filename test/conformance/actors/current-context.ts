/**
 * Uses all devices, closes them, and asks libcuda which context is current after each step. A
 * context that was released and stays current crashes the process in `cuCtxSetFlags`.
 * Arguments: `main` or `worker`, the thread that does it.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { isMainThread, Worker } from "node:worker_threads";
import { createCudaDriver } from "../../../src/driver/cuda/cuda-driver.js";
import { cuResult } from "../../../src/ffi/cuda-constants.js";
import { koffi } from "../../../src/ffi/koffi.js";
import { Device, DeviceArray } from "../../../src/index.js";

const libcuda = koffi().load("libcuda.so.1");
const getCurrent = libcuda.func("cuCtxGetCurrent", "int", ["void*"]);
const setFlags = libcuda.func("cuCtxSetFlags", "int", ["uint"]);
const deviceGet = libcuda.func("cuDeviceGet", "int", ["void*", "int"]);
const create = libcuda.func("cuCtxCreate_v2", "int", ["void*", "uint", "int"]);
const destroy = libcuda.func("cuCtxDestroy_v2", "int", ["void*"]);

function current(): bigint {
  const out = new BigUint64Array(1);
  assert.equal(getCurrent(out), cuResult.CUDA_SUCCESS);
  return out[0] as bigint;
}

/** Uses every device, all of them at a time, and checks the current context after each step. */
async function useDevices(expected: bigint): Promise<void> {
  const after = <T>(step: string, value: T): T => {
    assert.equal(current(), expected, step);
    return value;
  };
  const driver = createCudaDriver();
  const count = driver.deviceCount();
  driver.close();
  const devices = Array.from({ length: count }, (_, ordinal) =>
    after("open", Device.open(`cuda:${ordinal}`)),
  );
  for (const device of devices) {
    const stream = after("stream", device.createStream());
    const array = after("array", DeviceArray.allocate(device, { dtype: "int32", shape: [1000] }));
    const values = Int32Array.from({ length: 1000 }, (_, index) => index);
    after("write", await array.write(values));
    assert.deepEqual(after("read", await array.read()), values);
    const timeline = after("timeline", device.createTimeline());
    after("signal", stream.signal(timeline, 5));
    after("wait", stream.wait(timeline, 5));
    after("synchronize", await stream.synchronize());
    after("close timeline", timeline.close());
    after("close array", array.close());
    after("close stream", stream.close());
  }
  for (const device of devices) after("close", device.close());
}

async function check(): Promise<void> {
  await useDevices(0n);
  // Crashes if the context that was released is still current.
  assert.equal(setFlags(0), cuResult.CUDA_ERROR_INVALID_CONTEXT);

  const device = new Int32Array(1);
  assert.equal(deviceGet(device, 0), cuResult.CUDA_SUCCESS);
  const own = new BigUint64Array(1);
  assert.equal(create(own, 0, device[0]), cuResult.CUDA_SUCCESS);
  assert.equal(current(), own[0]);
  await useDevices(own[0] as bigint);
  assert.equal(setFlags(0), cuResult.CUDA_SUCCESS);
  assert.equal(destroy(own[0]), cuResult.CUDA_SUCCESS);
  assert.equal(current(), 0n);
}

if (isMainThread && process.argv[2] === "worker") {
  const worker = new Worker(new URL(import.meta.url));
  const [status] = await once(worker, "exit");
  assert.equal(status, 0);
  // The thread is gone, and nothing of it is current here.
  assert.equal(current(), 0n);
} else {
  await check();
}
