// Measures what it costs the CPU to enqueue signals and waits that are already satisfied. The same
// loops in C: bench/c/enqueue.c
import type { TimelineOperation } from "../../src/gpu/order/stream.js";
import { finish, openDevice, timeCalls } from "./actor.js";

const BATCH = 8;

const device = openDevice();
const stream = device.createStream();
const signalled = device.createTimeline({ label: "signalled" });
const reached = device.createTimeline({ label: "reached" });
reached.signal(1);
let value = 1;

const between = () => finish(stream);
timeCalls("enqueue-signal", () => stream.signal(signalled, value++), between);
timeCalls("enqueue-wait", () => stream.wait(reached, 1), between);
timeCalls(
  "enqueue-batch-8",
  () => {
    const operations: TimelineOperation[] = [];
    for (let i = 0; i < BATCH; i += 2) {
      operations.push({ signal: signalled, value: value++ }, { wait: reached, value: 1 });
    }
    stream.batch(operations);
  },
  between,
);
for (const it of [stream, signalled, reached, device]) it.close();
