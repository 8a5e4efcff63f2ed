/**
 * Keeps cuda:0 busy until it is killed, or faults. The argument is one of:
 *   kernels  a queue of kernels of 100 ms
 *   endless  one kernel that never ends
 *   fills    a long queue of fills, and no kernel
 *   faults   waits for an order, and then a kernel writes to an unmapped address
 */

import { arg, Module } from "../../../src/doors/kernels.js";
import { Device, DeviceArray } from "../../../src/index.js";
import { kernelImage } from "../../conformance/kernel-image.js";
import { argument, say, told } from "../../support/actor-side.js";
import { COUNT_KERNEL } from "./count-kernel.js";

const MS = 1_000_000n;
const what = argument(0);
const device = Device.open("cuda:0");
const stream = device.createStream();
const counter = DeviceArray.allocate(device, { dtype: "uint64", shape: [1] });
const large = DeviceArray.allocate(device, { dtype: "uint32", shape: [1024 * 1024 * 1024] });
await counter.clear();
const count = Module.load(device, COUNT_KERNEL).kernel("count");
const run = (nanoseconds: bigint) =>
  count.launch({ grid: 1, block: 1, args: [counter, arg.u64(nanoseconds)], stream });

if (what === "kernels") for (let i = 0; i < 100; i += 1) run(100n * MS);
if (what === "endless") run(2n ** 62n);
if (what === "fills") {
  const { pointer } = large.buffer;
  for (let value = 0; value < 900; value += 1) {
    device.driver.fill(stream.handle, pointer, { elementBytes: 4, value }, large.elementCount);
  }
}
say("busy");
if (what === "faults") {
  await told();
  Module.load(device, kernelImage)
    .kernel("shape")
    .launch({ grid: 1, block: 1, args: [0x10n], stream });
  say(
    await stream
      .synchronize({ timeoutMs: 30_000 })
      .catch(({ code, message }) => ({ code, message })),
  );
  process.exit(0);
}
setInterval(() => {}, 1000);
