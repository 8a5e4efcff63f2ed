// A worker thread that is terminated during a turn of its event loop, with a ready watch.
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { createBell, ringBell } from "../../../../src/os/bell.js";
import { FdWatch } from "../../../../src/os/fd-watch.js";

const POSTED = 1;
const BUSY = 2;

if (isMainThread) {
  // The thread must be busy when it is terminated, so it reports through memory.
  const gate = new Int32Array(new SharedArrayBuffer(4));
  const worker = new Worker(new URL(import.meta.url), { workerData: gate });
  worker.once("message", () => {
    worker.postMessage("be busy");
    Atomics.store(gate, 0, POSTED);
    Atomics.notify(gate, 0);
    while (Atomics.load(gate, 0) !== BUSY) Atomics.wait(gate, 0, POSTED, 1000);
    void worker.terminate().then((code) => process.stdout.write(`${code}\n`));
  });
} else {
  const gate = workerData as Int32Array;
  const bell = createBell();
  new FdWatch(bell, () => {});
  parentPort?.on("message", () => {
    Atomics.store(gate, 0, BUSY);
    Atomics.notify(gate, 0);
    for (;;);
  });
  setImmediate(() => {
    parentPort?.postMessage("ready");
    Atomics.wait(gate, 0, 0);
    // WHY after the main thread's message: the event loop then finds both, and the message first.
    ringBell(bell);
  });
}
