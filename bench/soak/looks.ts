/** Looks at the hub with `cuda-ipc top --json`, as an operator does while it is attacked. */
import { spawn } from "node:child_process";
import { fileURLToPath } from "node:url";
import { monotonicMs } from "../hub/monotonic.js";
import type { Random } from "../random.js";
import { pause } from "./pause.js";
import { addCounts, type Counts } from "./tally.js";

const LAUNCH = fileURLToPath(new URL("../../src/cli/launch.cjs", import.meta.url));
const BETWEEN_MS = [3000, 10_000] as const;
/** A look waits a second for rates, and one more for a command line that never comes. */
const WAITS_MS = 2000;
/** The hub was killed, and nobody has started the next one yet. */
const WITHOUT_HUB = /HUB_GONE|HUB_UNAVAILABLE/;

export interface Looks {
  readonly socket: string;
  readonly random: Random;
  /** How long an operation may take. A look starts a process, which asks the hub twice. */
  readonly operationMs: number;
  readonly fault: (fault: string) => void;
}

/** @returns the number of looks by their outcome */
export async function lookUntil(
  over: AbortSignal,
  { socket, random, operationMs, fault }: Looks,
): Promise<Counts> {
  const counts: Counts = {};
  for (;;) {
    await pause(random.between(...BETWEEN_MS), over);
    if (over.aborted) return counts;
    const startMs = monotonicMs();
    const { status, signal, stderr } = await top(socket, 3 * operationMs + WAITS_MS);
    const ms = Math.round(monotonicMs() - startMs);
    if (status === 0) addCounts(counts, { top: 1 });
    else if (WITHOUT_HUB.test(stderr)) addCounts(counts, { "top: no hub": 1 });
    else if (signal !== null) fault(`top had not ended after ${ms} ms`);
    else fault(`top ended with ${status}: ${stderr}`);
  }
}

interface Ended {
  readonly status: number | null;
  readonly signal: string | null;
  readonly stderr: string;
}

function top(socket: string, limitMs: number): Promise<Ended> {
  const child = spawn(process.execPath, [LAUNCH, "top", "--json"], {
    env: { ...process.env, CUDA_IPC_SOCKET: socket, CUDA_IPC_DEVICE: "host" },
    stdio: ["ignore", "ignore", "pipe"],
    timeout: limitMs,
    killSignal: "SIGKILL",
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (status, signal) => resolve({ status, signal, stderr }));
  });
}
