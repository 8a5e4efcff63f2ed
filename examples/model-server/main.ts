/**
 * A model server: a gateway in Node takes inputs over HTTP and passes them through shared memory to
 * workers in Python. The model's weights are in shared memory once, and PyTorch in each worker uses
 * them in place. The program sends inputs to itself, kills a worker meanwhile, and checks every
 * answer. The worker that takes its place has its weights again within milliseconds.
 *
 *   node dist/examples/model-server/main.js    in a clone after `npm install`
 *   node examples/model-server/main.ts         the same, with Node 24 or newer
 *   --workers 2 --requests 200 --device cuda:0
 *
 * Needs Python with PyTorch, or with NumPy on the host. PYTHON names the interpreter.
 *
 * The output (the numbers are processes):
 *   4711  put 203530 parameters into "model-4711" for all workers
 *   4711  worker 4712 has its weights after 3.1 ms (PyTorch)
 *   4711  worker 4713 has its weights after 2.9 ms (PyTorch)
 *   4711  an input of the wrong size was refused
 *   4711  100 of 200 inputs were answered: kills worker 4712 by SIGKILL
 *   4711  worker 4714 has its weights after 3.0 ms (PyTorch)
 *   4711  208 answers, all correct, 1 retried; by workers 4712: 48, 4713: 157, 4714: 3
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { CudaIpcError, connect, Device } from "cuda-ipc";
import { connectService, type ServiceClient } from "cuda-ipc/service";
import { say } from "../program.ts";
import { startGateway } from "./gateway.ts";
import { answerTo, inputOf, makeWeights, putWeights } from "./model.ts";

const LIMIT_MS = 60_000;
const AT_A_TIME = 4;
const MORE_MAX = 2000;
const TOLERANCE = 1e-3;
const python = process.env.PYTHON ?? "python3";
// This file is in the folder of the worker, or compiled in another one.
const folder = [".", "../../../examples/model-server"]
  .map((path) => fileURLToPath(new URL(`${path}/`, import.meta.url)))
  .find((path) => existsSync(`${path}worker.py`));

const { values } = parseArgs({
  options: {
    workers: { type: "string", default: "2" },
    requests: { type: "string", default: "200" },
    device: { type: "string" },
  },
});
const service = `predict-${process.pid}`;
const model = `model-${process.pid}`;
const workers = new Set<ChildProcess>();

try {
  process.once("SIGINT", () => process.exit(130)).once("SIGTERM", () => process.exit(143));
  await main(count("workers", 1, 64), count("requests", 2, 1_000_000));
} catch (error) {
  const code =
    error instanceof CudaIpcError ? error.code : error instanceof RangeError ? "USAGE" : "INTERNAL";
  console.error(`error[${code}]: ${error instanceof Error ? error.message : error}`);
  for (const worker of workers) worker.kill("SIGKILL");
  // WHY at once: requests that are under way would keep the process.
  process.exit(code === "USAGE" ? 2 : 1);
}

async function main(workerCount: number, requests: number): Promise<void> {
  const device = Device.open(values.device);
  const { name } = device;
  device.close();
  await using hub = await connect({ device: name, hubIdleMs: 500 });
  const weights = makeWeights();
  using _weights = await putWeights(hub, model, weights);
  const parameters = Object.values(weights).reduce((sum, { length }) => sum + length, 0);
  say(`put ${parameters} parameters into "${model}" for all workers`);
  await using client = connectService(hub, service);
  const start = () => startWorker(hub.socketPath, name);
  const [first] = await Promise.all(Array.from({ length: workerCount }, start));
  const { server, url } = await startGateway(client);
  await refused(url);
  await underLoad(url, { requests, weights, client, first, start });
  server.close();
  server.closeAllConnections();
  await Promise.all([...workers].map(endWorker));
}

async function startWorker(socket: string, device: string): Promise<ChildProcess> {
  if (folder === undefined) throw new Error("Cannot find worker.py beside this program");
  const source = resolve(folder, "../../python/src");
  const path = [source, process.env.PYTHONPATH].filter(Boolean).join(":");
  const worker = spawn(python, [`${folder}worker.py`, service, model, device], {
    env: { ...process.env, CUDA_IPC_SOCKET: socket, PYTHONPATH: path },
    stdio: ["pipe", "pipe", "inherit"],
  });
  workers.add(worker);
  worker.once("exit", () => workers.delete(worker));
  const lines = createInterface({ input: worker.stdout });
  const signal = AbortSignal.timeout(LIMIT_MS);
  const [said] = await Promise.race([
    once(lines, "line", { signal }),
    once(worker, "exit", { signal }),
  ]);
  if (typeof said !== "string")
    throw new CudaIpcError("PEER_GONE", `A worker ended with ${said} before it was ready`);
  const { framework, weightsMs } = JSON.parse(said) as { framework: string; weightsMs: number };
  say(`worker ${worker.pid} has its weights after ${weightsMs.toFixed(1)} ms (${framework})`);
  return worker;
}

async function endWorker(worker: ChildProcess): Promise<void> {
  const exited = once(worker, "exit");
  worker.stdin?.end();
  await exited;
}

async function refused(url: string): Promise<void> {
  const { status } = await fetch(url, { method: "POST", body: new Uint8Array(3) });
  if (status !== 400) throw new CudaIpcError("VERIFICATION_FAILED", `wanted 400, got ${status}`);
  say("an input of the wrong size was refused");
}

interface Load {
  readonly requests: number;
  readonly weights: ReturnType<typeof makeWeights>;
  readonly client: ServiceClient;
  readonly first: ChildProcess | undefined;
  readonly start: () => Promise<ChildProcess>;
}

/** Sends all inputs, some at a time. After half of them it kills a worker and starts another. */
async function underLoad(url: string, load: Load): Promise<void> {
  const { requests, weights, client, first, start } = load;
  const half = Math.ceil(requests / 2);
  const answers = new Map<number, number>();
  let [next, answered] = [0, 0];
  let replaced: Promise<ChildProcess> | undefined;
  const sendOn = async () => {
    while (next < requests) {
      next += 1;
      const worker = await sendInput(url, next - 1, weights);
      answers.set(worker, (answers.get(worker) ?? 0) + 1);
      answered += 1;
      if (answered !== half) continue;
      say(`${half} of ${requests} inputs were answered: kills worker ${first?.pid} by SIGKILL`);
      first?.kill("SIGKILL");
      replaced = start();
    }
  };
  await Promise.all(Array.from({ length: AT_A_TIME }, sendOn));
  const pid = (await replaced)?.pid ?? 0;
  // The new worker may have come after the last input, so it gets more.
  for (; !answers.has(pid) && next < requests + MORE_MAX; next += AT_A_TIME) {
    const numbers = Array.from({ length: AT_A_TIME }, (_, i) => next + i);
    for (const worker of await Promise.all(numbers.map((it) => sendInput(url, it, weights))))
      answers.set(worker, (answers.get(worker) ?? 0) + 1);
  }
  if (!answers.has(pid))
    throw new CudaIpcError("VERIFICATION_FAILED", `worker ${pid} has answered nothing`);
  const shares = [...answers].map(([pid, count]) => `${pid}: ${count}`).join(", ");
  const retried = `${client.retried} retried`;
  say(`${next} answers, all correct, ${retried}; by workers ${shares}`);
}

/** @throws VERIFICATION_FAILED for a wrong answer. @returns the worker that answered */
async function sendInput(url: string, number: number, weights: Load["weights"]): Promise<number> {
  const input = inputOf(number);
  const response = await fetch(url, { method: "POST", body: new Uint8Array(input.buffer) });
  const found = (await response.json()) as {
    readonly scores?: readonly number[];
    readonly worker?: number;
    readonly error?: string;
  };
  const wanted = answerTo(input, weights);
  const isRight = [...wanted].every(
    (score, i) => Math.abs(score - (found.scores?.[i] ?? Number.NaN)) < TOLERANCE,
  );
  if (response.status !== 200 || !isRight) {
    const words = `${response.status} ${found.error ?? found.scores}`;
    throw new CudaIpcError("VERIFICATION_FAILED", `input ${number} was answered ${words}`);
  }
  return found.worker ?? 0;
}

function count(option: "workers" | "requests", least: number, most: number): number {
  const value = Number(values[option]);
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw new RangeError(
    `--${option} must be an integer from ${least} to ${most}, not ${values[option]}`,
  );
}
