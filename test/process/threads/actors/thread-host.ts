// A process whose main thread never loads koffi. It starts worker threads that use a hub, and ends
// them or itself by command: `start COUNT STAGE`, `terminate`, `exit`, `throw`, `fds`, `main
// exits`, `main throws`.
import { once } from "node:events";
import { readdirSync } from "node:fs";
import { Worker } from "node:worker_threads";
import { argument, say, told } from "../../../support/actor-side.js";

const socket = argument(0);
let workers: Worker[] = [];

async function start(count: number, stage: string): Promise<void> {
  const started = Array.from({ length: count }, (_, index) => {
    const worker = new Worker(new URL("./holds.js", import.meta.url), {
      workerData: { socket, stage, index },
    });
    worker.on("error", () => {});
    return worker;
  });
  await Promise.all(started.map((worker) => once(worker, "message")));
  workers.push(...started);
}

/** Ends all threads in one way. @returns their exit codes */
async function end(how: (worker: Worker) => void): Promise<number[]> {
  const ending = workers;
  workers = [];
  // WHY not `once`: it rejects for a worker that threw.
  const ends = ending.map((worker) => new Promise<number>((resolve) => worker.on("exit", resolve)));
  for (const worker of ending) how(worker);
  return Promise.all(ends);
}

const deeds: Record<string, (...args: string[]) => unknown> = {
  start: (count = "1", stage = "hold") => start(Number(count), stage),
  terminate: () => end((worker) => void worker.terminate()),
  exit: () => end((worker) => worker.postMessage("exit")),
  throw: () => end((worker) => worker.postMessage("throw")),
  fds: () => readdirSync("/proc/self/fd").length,
};

for (;;) {
  const line = await told();
  if (line === "main exits") process.exit(0);
  if (line === "main throws") {
    setImmediate(() => {
      throw new Error("the main thread threw");
    });
    break;
  }
  const [deed = "", ...args] = line.split(" ");
  say((await deeds[deed]?.(...args)) ?? null);
}
