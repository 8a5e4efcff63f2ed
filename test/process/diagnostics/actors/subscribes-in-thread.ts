/**
 * A worker thread that commits one message, and reports what its own subscriber and that of the
 * main thread heard. Argument 0 is the hub's socket.
 */
import { subscribe } from "node:diagnostics_channel";
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { connect } from "../../../../src/index.js";

const heard: string[] = [];
subscribe("cuda-ipc:commit", (message) => {
  heard.push((message as { readonly name: string }).name);
});
if (isMainThread) {
  const worker = new Worker(new URL(import.meta.url), { workerData: process.argv[2] });
  const ofWorker = await new Promise((resolve) => worker.once("message", resolve));
  await worker.terminate();
  process.stdout.write(`${JSON.stringify({ heard, ofWorker })}\n`);
} else {
  await using hub = await connect({ socket: workerData, start: false, device: "host" });
  using writer = await hub.createChannel("thread", { byteLength: 64 });
  using slot = await writer.loan();
  slot.commit();
  parentPort?.postMessage(heard);
}
