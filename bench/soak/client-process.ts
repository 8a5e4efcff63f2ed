/** A client process, seen from the soak: its messages, when it was stopped, and how it ended. */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { monotonicMs } from "../hub/monotonic.js";
import type { ClientLine, LateOperation } from "./tally.js";

const ACTOR = fileURLToPath(new URL("../actors/soak-client.js", import.meta.url));
const COMPLAINT_CHARACTERS_MAX = 2000;

/** The options of a client. */
export interface ClientOrder {
  readonly socket: string;
  readonly seed: number;
  readonly hubIdleMs: number;
  /** Between two operations, on average. */
  readonly pauseMs: number;
  /** How long an operation may take, without the time that it waits on request. */
  readonly operationMs: number;
  /** The service that it works for. No other process that lives does so. */
  readonly service: string;
}

interface Stop {
  readonly fromMs: number;
  toMs: number;
}

export class ClientProcess {
  readonly pid: number;
  /** Its exit code and signal, in words. */
  readonly ended: Promise<string>;
  readonly #child: ChildProcess;
  readonly #stops: Stop[] = [];

  constructor(order: ClientOrder, onLine: (line: ClientLine) => void) {
    const child = spawn(process.execPath, [ACTOR, JSON.stringify(order)], {
      stdio: ["pipe", "pipe", "pipe"],
    });
    this.#child = child;
    this.pid = child.pid ?? 0;
    // It may end while it gets the order to leave.
    child.stdin.on("error", () => {});
    let complaint = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      complaint = (complaint + text).slice(-COMPLAINT_CHARACTERS_MAX);
    });
    const lines = createInterface({ input: child.stdout });
    lines.on("line", (text) => {
      const line = parse(text);
      if (line !== undefined && !(line.kind === "late" && !this.#ranTooLong(line.late)))
        onLine(line);
    });
    this.ended = new Promise((resolve) => {
      child.once("close", (code, signal) =>
        resolve(`${signal ?? code}${complaint === "" ? "" : `: ${complaint}`}`),
      );
    });
  }

  leave(): void {
    this.#child.stdin?.end();
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  stop(): void {
    this.#stops.push({ fromMs: monotonicMs(), toMs: Number.POSITIVE_INFINITY });
    this.#child.kill("SIGSTOP");
  }

  continue(): void {
    this.#child.kill("SIGCONT");
    const stop = this.#stops.at(-1);
    if (stop !== undefined) stop.toMs = monotonicMs();
  }

  #ranTooLong(late: LateOperation): boolean {
    return ranMs(late, this.#stops) > late.limitMs;
  }
}

/** The duration of an operation, without the time in which the process was stopped. */
export function ranMs({ startMs, endMs }: LateOperation, stops: readonly Stop[]): number {
  const overlaps = stops.map(({ fromMs, toMs }) =>
    Math.max(0, Math.min(endMs, toMs) - Math.max(startMs, fromMs)),
  );
  return endMs - startMs - overlaps.reduce((sum, ms) => sum + ms, 0);
}

/** Returns undefined for a line that a killed process did not finish. */
function parse(text: string): ClientLine | undefined {
  try {
    return JSON.parse(text) as ClientLine;
  } catch {
    return undefined;
  }
}
