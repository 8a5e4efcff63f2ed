/** Measures the Python package on the host device: its import, channels, hand-over and services. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connectService } from "../src/doors/service.js";
import { connect } from "../src/index.js";
import { type Row, sampleMicroseconds } from "./measure.js";

const PYTHON = process.env.PYTHON ?? "python3";
const LIMIT_MS = 60_000;
const IMPORTS = 9;
const MESSAGES = 200_000;
const HANDOVERS = 1000;
const REQUESTS = 1000;

const source = fileURLToPath(new URL("../../python/src", import.meta.url));
const scriptOf = (name: string) =>
  fileURLToPath(new URL(`../../bench/python/${name}.py`, import.meta.url));

/** The line of JSON that the program prints. */
function resultOf(name: string, args: readonly string[]): Record<string, number> {
  const all = [scriptOf(name), source, ...args];
  const { status, stdout, stderr, error } = spawnSync(PYTHON, all, {
    encoding: "utf8",
    timeout: LIMIT_MS,
  });
  if (status !== 0) throw new Error(`${name}.py: ${error?.message ?? stderr}`);
  return JSON.parse(stdout) as Record<string, number>;
}

/** @param iterations of each loop, instead of its own number */
export async function pythonPackage(iterations: number | undefined): Promise<Row[]> {
  const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-bench-"));
  const socket = join(folder, "hub.sock");
  const hub = await connect({ socket, device: "host", hubIdleMs: 1000 });
  try {
    return [
      ...importRows(),
      readerRow(resultOf("channel_reader", [socket, String(iterations ?? MESSAGES)])),
      ...handoverRows(resultOf("host_handover", [socket, String(iterations ?? HANDOVERS)])),
      await serviceRow(hub, iterations ?? REQUESTS),
    ];
  } finally {
    await hub.stop({ force: true });
    await hub.close();
    rmSync(folder, { recursive: true, force: true });
  }
}

function importRows(): Row[] {
  const best = (...args: string[]) =>
    Math.min(
      ...Array.from({ length: IMPORTS }, () => resultOf("import_time", args).ms ?? Number.NaN),
    );
  const bare = best();
  return [
    {
      what: "import cuda_ipc",
      value: bare,
      unit: "ms",
      goal: "under 50 ms",
      met: bare < 50,
    },
    { what: "import of all that cuda_ipc.connect() needs", value: best("connect"), unit: "ms" },
  ];
}

function readerRow({ perSecond = Number.NaN }): Row {
  return {
    what: "a reader in Python, messages of 64 bytes",
    value: perSecond,
    unit: "messages/s",
    goal: "at least 150,000 messages/s",
    met: perSecond >= 150_000,
  };
}

function handoverRows({ channelUs = Number.NaN, queueUs = Number.NaN }): Row[] {
  const ratio = queueUs / channelUs;
  return [
    {
      what: "1 MiB to another Python process and acknowledged, p50",
      value: channelUs,
      unit: "us",
      goal: "a tenth of multiprocessing.Queue",
      met: ratio >= 10,
    },
    {
      what: "the same by multiprocessing.Queue, p50",
      value: queueUs,
      unit: "us",
      comparedWith: "the channel",
      ratio,
    },
  ];
}

async function serviceRow(
  hub: Awaited<ReturnType<typeof connect>>,
  requests: number,
): Promise<Row> {
  const name = "python-worker";
  const worker = spawn(PYTHON, [scriptOf("service_worker"), source, hub.socketPath, name], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  try {
    await once(worker.stdout, "data", { signal: AbortSignal.timeout(LIMIT_MS) });
    await using client = connectService(hub, name);
    // The image would be made in place. What is measured is all that is not work.
    const { p50 } = await sampleMicroseconds(requests, async () => {
      using reply = await client.request((slot) => void slot.bytes);
      if (reply.byteLength === 0) throw new Error("the reply is empty");
    });
    return {
      what: "a request of 6 MB from Node to a worker in Python and back, p50",
      value: p50,
      unit: "us",
      goal: "under 300 us beyond the work",
      met: p50 < 300,
    };
  } finally {
    const ended = once(worker, "close");
    worker.stdin.end();
    await ended;
  }
}
