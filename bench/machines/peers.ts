/** Measures other ways to carry bytes between two places: sendfile in C, and ucx_perftest. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { openLibucp } from "../../src/ffi/libucp-search.js";
import { soon } from "../../test/support/until.js";
import type { CPrograms } from "../c-programs.js";
import type { Place } from "./site.js";

const MiB = 1024 * 1024;
const PORT = 13_337;
/** Until ucx_perftest listens, of which it says nothing, it is asked again. */
const ATTEMPTS = 50;
const PAUSE_MS = 100;

type Memory = "new" | "used";

/** Milliseconds to send a memory file to another one. A text says why it cannot be measured. */
export async function sendFileMs(
  c: CPrograms,
  [from, to]: readonly [Place, Place],
  byteLength: number,
  memory: Memory,
): Promise<number | string> {
  const receiver = start(c, to, ["receive", to.address, String(byteLength), memory]);
  if (typeof receiver === "string") return receiver;
  try {
    const lines = createInterface({ input: receiver.stdout as NodeJS.ReadableStream });
    const next = lines[Symbol.asyncIterator]();
    const { value: port } = await soon("the receiver listens", next.next());
    const sender = start(c, from, ["send", to.address, String(byteLength), String(port)]);
    if (typeof sender === "string") return sender;
    const ended = once(sender, "exit");
    const { value: ms } = await soon("all bytes have come", next.next());
    await ended;
    return Number(ms);
  } finally {
    receiver.kill("SIGKILL");
  }
}

function start(c: CPrograms, { within }: Place, args: readonly string[]): ChildProcess | string {
  const program = c.programWith("network", args);
  if (typeof program === "string") return program;
  const words = [...within, program.command, ...program.args];
  return spawn(words[0] as string, words.slice(1), { stdio: ["ignore", "pipe", "inherit"] });
}

export interface UcxFigures {
  /** Half of a round trip: the median. */
  readonly p50Us: number;
  readonly bytesPerSecond: number;
}

/** One test of UCX's own benchmark, event-driven. A text says why it cannot be measured. */
export async function ucxPerftest(
  [from, to]: readonly [Place, Place],
  test: readonly string[],
): Promise<UcxFigures | string> {
  const program = join(dirname(openLibucp().path), "../bin/ucx_perftest");
  if (!existsSync(program)) return "no ucx_perftest beside libucp";
  const folder = join(dirname(program), "../lib");
  const env = { ...process.env, UCX_TLS: "tcp", LD_LIBRARY_PATH: folder };
  const common = [program, "-e", "-E", "sleep", "-p", String(PORT)];
  const run = ({ within }: Place, more: readonly string[]) => {
    const words = [...within, ...common, ...more];
    return spawn(words[0] as string, words.slice(1), { env, stdio: ["ignore", "pipe", "ignore"] });
  };
  const server = run(to, []);
  try {
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const client = run(from, [to.address, ...test]);
      let text = "";
      client.stdout?.setEncoding("utf8").on("data", (part: string) => {
        text += part;
      });
      await soon("ucx_perftest ends", once(client, "close"));
      const figures = figuresIn(text);
      if (figures !== undefined) return figures;
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
    return "ucx_perftest does not connect";
  } finally {
    server.kill("SIGKILL");
  }
}

/** `Final: count, us (p50, average, overall), MiB/s (average, overall), 1/s (both)` */
function figuresIn(text: string): UcxFigures | undefined {
  const line = /^Final:\s+(.*)$/m.exec(text)?.[1];
  if (line === undefined) return undefined;
  const numbers = line.trim().split(/\s+/).map(Number);
  return { p50Us: numbers[1] ?? Number.NaN, bytesPerSecond: (numbers[5] ?? Number.NaN) * MiB };
}
