/**
 * Measures other ways to carry bytes between two places: programs in C, and UCX's own ucx_perftest.
 */
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
  places: readonly [Place, Place],
  byteLength: number,
  memory: Memory,
): Promise<number | string> {
  const size = String(byteLength);
  const told = await tell(c, places, "network", { receive: [size, memory], send: [size] });
  return typeof told === "string" ? told : Number(told.receiver);
}

/**
 * The median of round trips, in us, in C: the wake-ups of two bridges without their work. A text
 * says why it cannot be measured.
 */
export async function relayUs(
  c: CPrograms,
  places: readonly [Place, Place],
  roundTrips: number,
): Promise<number | string> {
  const told = await tell(c, places, "relay", { receive: [], send: [String(roundTrips)] });
  if (typeof told === "string") return told;
  return (JSON.parse(told.sender) as { us: { p50: number } }).us.p50;
}

/**
 * Runs a program of bench/c on both sides, and returns the last line of each. The first line of the
 * receiver is its port.
 */
async function tell(
  c: CPrograms,
  [from, to]: readonly [Place, Place],
  name: string,
  args: { readonly receive: readonly string[]; readonly send: readonly string[] },
): Promise<{ readonly receiver: string; readonly sender: string } | string> {
  const start = ({ within }: Place, more: readonly string[]): Side | string => {
    const program = c.programWith(name, more);
    return typeof program === "string" ? program : new Side([...within, program.command, ...more]);
  };
  const receiver = start(to, ["receive", to.address, ...args.receive]);
  if (typeof receiver === "string") return receiver;
  try {
    const port = await receiver.line("the receiver listens");
    const sender = start(from, ["send", to.address, ...args.send, port]);
    if (typeof sender === "string") return sender;
    const told = await sender.line("the sender ends");
    return { receiver: await receiver.line("the receiver ends"), sender: told };
  } finally {
    receiver.kill();
  }
}

/** A program of one side, and what it prints. */
class Side {
  readonly #child: ChildProcess;
  readonly #lines: AsyncIterator<string>;

  constructor([command = "", ...args]: readonly string[]) {
    this.#child = spawn(command, args, { stdio: ["ignore", "pipe", "inherit"] });
    const output = this.#child.stdout as NodeJS.ReadableStream;
    this.#lines = createInterface({ input: output })[Symbol.asyncIterator]();
  }

  async line(what: string): Promise<string> {
    const { value } = await soon(what, this.#lines.next());
    return value ?? "";
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }
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
