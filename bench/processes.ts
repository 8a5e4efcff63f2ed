/** Runs processes that measure together. If one fails or times out, ends all and throws. */
import { type ChildProcess, spawn } from "node:child_process";
import { Deadline, type WaitOptions } from "../src/base/deadline.js";
import { SeqpacketSocket } from "../src/os/seqpacket.js";

const LIMIT_MS = 90_000;

/** The output of a benchmark, in C and in TypeScript: one line of JSON. */
export interface Measurement {
  readonly name: string;
  readonly iterations: number;
  readonly us: { readonly p50: number; readonly p99: number; readonly mean: number };
}

export interface Program {
  readonly command: string;
  readonly args: readonly string[];
  /** Added to this process's environment. */
  readonly env?: Readonly<Record<string, string>>;
}

/**
 * Runs one program, or two with a socket between them as descriptor 3, until all have ended.
 * @throws if one fails or prints no measurement; TIMEOUT, ABORTED
 */
export async function runTogether(
  programs: readonly Program[],
  options: WaitOptions = {},
): Promise<Measurement[]> {
  const what = `measure with ${programs.map(({ args }) => args.join(" ")).join(" and ")}`;
  const deadline = new Deadline(what, options, LIMIT_MS);
  deadline.check();
  const children = start(programs);
  const killAll = () => {
    for (const child of children) child.kill("SIGKILL");
  };
  const ends = children.map(outputOf);
  try {
    const outputs = await deadline.race(Promise.all(ends), () => {});
    return outputs.flatMap((output) => output.trim().split("\n")).flatMap(parseLine);
  } finally {
    killAll();
    await Promise.allSettled(ends);
  }
}

function start(programs: readonly Program[]): ChildProcess[] {
  const sockets = programs.length > 1 ? SeqpacketSocket.pair() : [];
  try {
    return programs.map(({ command, args, env }, index) => {
      const socket = sockets[index];
      const stdio = ["ignore", "pipe", "pipe", ...(socket ? [socket.fd.number] : [])] as const;
      return spawn(command, args, { stdio: [...stdio], env: { ...process.env, ...env } });
    });
  } finally {
    for (const socket of sockets) socket.close();
  }
}

/** Returns the process's output, once it has ended successfully. */
function outputOf(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let [output, complaint] = ["", ""];
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      complaint += text;
    });
    child.on("error", reject);
    child.on("close", (code, signal) => {
      if (code === 0) resolve(output);
      else
        reject(
          new Error(`${child.spawnargs.join(" ")} ended (${signal ?? code}): ${complaint.trim()}`),
        );
    });
  });
}

function parseLine(line: string): Measurement[] {
  if (line === "") return [];
  const found = JSON.parse(line) as Partial<Measurement>;
  const figures = [found.iterations, found.us?.p50, found.us?.p99, found.us?.mean];
  if (typeof found.name !== "string" || !figures.every(Number.isFinite))
    throw new Error(`No measurement: ${line}`);
  return [found as Measurement];
}
