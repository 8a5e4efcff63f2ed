/** Opens an array in a worker thread, reads it and leaves the hub; says what was read and which warnings there were. */
import { isMainThread, parentPort, Worker, workerData } from "node:worker_threads";
import { connect } from "../../../../src/index.js";

if (isMainThread) {
  const warnings: string[] = [];
  process.on("warning", (warning) => warnings.push(warning.message));
  const worker = new Worker(new URL(import.meta.url), { workerData: process.argv[2] });
  let read: unknown;
  worker.once("message", (message) => {
    read = message;
  });
  worker.once("exit", () => {
    setImmediate(() => process.stdout.write(`${JSON.stringify({ read, warnings })}\n`));
  });
} else {
  const hub = await connect({ socket: workerData as string, start: false, device: "host" });
  const made = await hub.create("by-thread", { dtype: "uint8", shape: [3] });
  await made.write([7, 8, 9]);
  await made.publish();
  const opened = await hub.open("by-thread");
  const values = [...((await opened.read()) as Uint8Array)];
  await hub.close();
  parentPort?.postMessage(values);
}
