/**
 * An inference server: a gateway takes images over HTTP, decodes them, and passes their pixels
 * through shared memory to worker processes. By default the program sends images to itself, kills a
 * worker meanwhile, and checks that every request gets the correct answer. The model's weights are
 * in shared memory once, and each worker maps them.
 *
 *   node dist/examples/inference-server/main.js    in a clone after `npm install`
 *   node examples/inference-server/main.ts         the same, with Node 24 or newer
 *   --workers 2 --requests 100 --port 0 --device cuda:0
 *   --serve     runs until Ctrl-C: curl --data-binary @image.jpg http://127.0.0.1:PORT/classify
 *
 * The output (the numbers are processes):
 *   4711  put the weights of 9 colours into "model-4711" for all workers
 *   4711  gateway: http://127.0.0.1:40961/classify, 2 workers: 4712, 4713
 *   4711  4 invalid requests were refused
 *   4711  50 of 100 images were answered: kills worker 4712 by SIGKILL
 *   4711  worker 4714 takes its place
 *   4711  100 images of 2 formats, all correct, 2 retried; by workers 4712: 24, 4713: 41, 4714: 35
 */
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { CudaIpcError, connect } from "cuda-ipc";
import { connectService, type ServiceClient } from "cuda-ipc/service";
import { isSkip, say } from "../program.ts";
import { startGateway } from "./gateway.ts";
import { labels, putWeights } from "./model.ts";
import { sendImages, sendNonsense } from "./traffic.ts";

// Its name ends in .js when it is compiled.
const WORKER = fileURLToPath(import.meta.url).replace(/main(\.[jt]s)$/, "worker$1");
const service = `classify-${process.pid}`;
const model = `model-${process.pid}`;

const { values } = parseArgs({
  options: {
    workers: { type: "string", default: "2" },
    requests: { type: "string", default: "100" },
    port: { type: "string", default: "0" },
    device: { type: "string" },
    serve: { type: "boolean", default: false },
  },
});

try {
  process.once("SIGINT", () => process.exit(130)).once("SIGTERM", () => process.exit(143));
  await main(count("workers", 1, 64), count("requests", 1, 1_000_000), count("port", 0, 65_535));
} catch (error) {
  const code =
    error instanceof CudaIpcError ? error.code : error instanceof RangeError ? "USAGE" : "INTERNAL";
  const message = error instanceof Error ? error.message : error;
  if (isSkip(error)) say(`Skipped: ${message}`);
  else console.error(`error[${code}]: ${message}`);
  process.exit(isSkip(error) ? 0 : code === "USAGE" ? 2 : 1);
}

async function main(workerCount: number, requests: number, port: number): Promise<void> {
  await using hub = await connect({ device: values.device, hubIdleMs: 500 });
  using _weights = await putWeights(hub, model);
  say(`put the weights of ${labels.length} colours into "${model}" for all workers`);
  await using client = connectService(hub, service);
  const workers = await Promise.all(Array.from({ length: workerCount }, startWorker));
  const { server, url } = await startGateway(client, port);
  say(
    `gateway: ${url}/classify, ${workerCount} workers: ${workers.map(({ pid }) => pid).join(", ")}`,
  );
  if (values.serve) await keepUp(workers);
  await sendNonsense(url);
  say("4 invalid requests were refused");
  await underLoad(url, { requests, workers, client });
  server.close();
  server.closeAllConnections();
  await Promise.all(workers.map(endWorker));
}

async function underLoad(
  url: string,
  {
    requests,
    workers,
    client,
  }: { requests: number; workers: ChildProcess[]; client: ServiceClient },
): Promise<void> {
  const half = Math.ceil(requests / 2);
  let replaced: Promise<void> | undefined;
  const answers = await sendImages(url, requests, (answered) => {
    if (answered !== half) return;
    const [killed] = workers.splice(0, 1);
    say(`${half} of ${requests} images were answered: kills worker ${killed?.pid} by SIGKILL`);
    killed?.kill("SIGKILL");
    replaced = startWorker().then((worker) => {
      workers.push(worker);
      say(`worker ${worker.pid} takes its place`);
    });
  });
  await replaced;
  const shares = [...answers].map(([pid, count]) => `${pid}: ${count}`).join(", ");
  const retried = `${client.retried} retried`;
  say(`${requests} images of 2 formats, all correct, ${retried}; by workers ${shares}`);
}

async function startWorker(): Promise<ChildProcess> {
  const device = values.device === undefined ? [] : ["--device", values.device];
  const worker = fork(WORKER, ["--service", service, "--model", model, ...device]);
  const [said] = await Promise.race([once(worker, "message"), once(worker, "exit")]);
  if (said === "ready") return worker;
  if (typeof said === "object" && said !== null) throw new CudaIpcError(said.code, said.message);
  throw new CudaIpcError("PEER_GONE", `A worker ended with ${said} before it was ready`);
}

async function endWorker(worker: ChildProcess): Promise<void> {
  const exited = once(worker, "exit");
  worker.send("end");
  await exited;
}

/** Serves until this process is interrupted. Replaces workers that die. */
async function keepUp(workers: readonly ChildProcess[]): Promise<never> {
  for (;;) {
    await Promise.all(
      workers.map(async (first) => {
        for (let worker = first; ; worker = await startWorker()) {
          const [code, signal] = await once(worker, "exit");
          say(`worker ${worker.pid} ended with ${signal ?? code}: another takes its place`);
        }
      }),
    );
  }
}

function count(option: "workers" | "requests" | "port", least: number, most: number): number {
  const value = Number(values[option]);
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  throw new RangeError(
    `--${option} must be an integer from ${least} to ${most}, not ${values[option]}`,
  );
}
