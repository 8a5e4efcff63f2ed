// A worker thread that reports its identity to the thread that started it or, as a program, in a
// line of JSON.
import { once } from "node:events";
import { isMainThread, parentPort, Worker } from "node:worker_threads";
import { ownThread } from "../../../../src/os/thread-identity.js";

if (isMainThread) {
  const worker = new Worker(new URL(import.meta.url));
  const [thread] = await once(worker, "message");
  process.stdout.write(`${JSON.stringify(thread)}\n`);
} else {
  parentPort?.on("message", () => {});
  parentPort?.postMessage(ownThread());
}
