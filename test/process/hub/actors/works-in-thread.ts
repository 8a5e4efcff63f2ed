/**
 * Opens an array in a worker thread, reads it and leaves the hub. Prints the values and all
 * warnings.
 */
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { connect } from "../../../../src/index.js";

if (isMainThread) {
  const worker = new Worker(new URL(import.meta.url), { workerData: process.argv[2] });
  worker.once("message", (message) => process.stdout.write(`${JSON.stringify(message)}\n`));
} else {
  const warnings: string[] = [];
  process.on("warning", (warning) => warnings.push(warning.message));
  const hub = await connect({ socket: workerData as string, start: false, device: "host" });
  const made = await hub.create("by-thread", { dtype: "uint8", shape: [3] });
  await made.write([7, 8, 9]);
  await made.publish();
  const opened = await hub.open("by-thread");
  const read = [...((await opened.read()) as Uint8Array)];
  await hub.close();
  // A warning is emitted one turn after its cause.
  await new Promise((resolve) => setImmediate(resolve));
  parentPort?.postMessage({ read, warnings });
}
