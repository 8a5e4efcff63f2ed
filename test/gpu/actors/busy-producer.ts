/**
 * Fills a queue of its GPU with kernels that count for ten seconds in shared memory, prints that,
 * and waits to be killed. Owns a timeline that it would signal after the last kernel, and memory
 * that nobody else opens. Arguments: socket, bytes of that memory.
 */

import { arg, Module } from "../../../src/doors/kernels.js";
import { connect } from "../../../src/index.js";
import { argument, say } from "../../support/actor-side.js";
import { COUNT_KERNEL } from "./count-kernel.js";

const KERNELS = 100;
const NANOSECONDS = 100_000_000;

const hub = await connect({ socket: argument(0), start: false, device: "cuda:0" });
const counter = await hub.create("counter", { dtype: "uint64", shape: [1] });
const unshared = await hub.create("unshared", { dtype: "uint8", shape: [Number(argument(1))] });
const done = await hub.createTimeline("done");
await Promise.all([counter.clear(), unshared.clear()]);
await Promise.all([counter.publish(), unshared.publish()]);
const stream = hub.device().createStream();
const kernel = Module.load(hub.device(), COUNT_KERNEL).kernel("count");
for (let i = 0; i < KERNELS; i += 1) {
  kernel.launch({ grid: 1, block: 1, args: [counter, arg.u64(BigInt(NANOSECONDS))], stream });
}
stream.signal(done, 1);
say(process.pid);
setInterval(() => {}, 1000);
