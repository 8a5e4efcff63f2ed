/**
 * The test's side of a process of the matrix. It sends orders, sees the process stop and end, and
 * limits its table of open files.
 */
import assert from "node:assert/strict";
import { type ChildProcess, execFileSync, fork } from "node:child_process";
import { once } from "node:events";
import { readdirSync, readlinkSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { isStopped, stateOf } from "../process-state.js";
import { soon, until } from "../until.js";
import type { SeamAction, SeamCounts } from "./fault-seam.js";
import { type Order, type Outcome, type OutcomeMessage, READY_ID } from "./orders.js";

/**
 * Far longer than any call takes that nothing holds up. WHY a minute: a hub took over 20 s to start
 * while other programs wrote to the disk.
 */
export const LONG_MS = 60_000;
/** An answer comes this long after the call's own time limit, at the latest. */
const ANSWER_MS = 20_000;

export class Party {
  readonly title: string;
  readonly #child: ChildProcess;
  readonly #waiting = new Map<number, (outcome: Outcome) => void>();
  readonly #ready: Promise<Outcome>;
  readonly #exited: Promise<string>;
  #lastId = READY_ID;
  #complaint = "";
  #fdsLimit: string | undefined;
  #ended: string | undefined;

  constructor(title: string, program: URL, args: readonly string[]) {
    this.title = title;
    const env = { ...process.env };
    delete env.NODE_TEST_CONTEXT;
    const stdio = ["ignore", "ignore", "pipe", "ipc"] as ["ignore", "ignore", "pipe", "ipc"];
    this.#child = fork(fileURLToPath(program), [...args], { env, execArgv: [], stdio });
    this.#child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.#complaint += text;
    });
    this.#ready = new Promise((resolve) => this.#waiting.set(READY_ID, resolve));
    this.#child.on("message", ({ id, ...outcome }: OutcomeMessage) => {
      this.#waiting.get(id)?.(outcome);
      this.#waiting.delete(id);
    });
    this.#exited = once(this.#child, "close").then(([code, signal]) => {
      this.#ended = String(signal ?? code);
      for (const settle of this.#waiting.values()) settle({ code: "ended", message: this.#ended });
      this.#waiting.clear();
      return this.#ended;
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Its standard error so far. */
  get complaint(): string {
    return this.#complaint;
  }

  get hasEnded(): boolean {
    return this.#ended !== undefined;
  }

  /** Its first message; `ended` if it died before. */
  ready(): Promise<Outcome> {
    return soon(`the ${this.title} is ready: ${this.#complaint}`, this.#ready, LONG_MS);
  }

  /** Sends an order and returns its outcome; `ended` if the process ends first. */
  tell(order: Order, timeoutMs: number = LONG_MS): Promise<Outcome> {
    if (this.#ended !== undefined) return Promise.resolve({ code: "ended", message: this.#ended });
    this.#lastId += 1;
    const id = this.#lastId;
    const outcome = new Promise<Outcome>((resolve) => this.#waiting.set(id, resolve));
    this.#child.send({ ...order, id, timeoutMs }, () => {});
    return soon(`the ${this.title} has done ${order.do}`, outcome, timeoutMs + ANSWER_MS);
  }

  /** Like `tell`, for an order that must not fail. */
  async must(order: Order): Promise<unknown> {
    const { code, message, value } = await this.tell(order);
    assert.equal(
      code,
      null,
      `the ${this.title} cannot ${JSON.stringify(order)}: ${message}\n${this.#complaint}`,
    );
    return value;
  }

  async arm(action: SeamAction, at: number): Promise<void> {
    await this.must({ do: "arm", action, at });
  }

  /** Undefined if it was killed. */
  async disarm(): Promise<SeamCounts | undefined> {
    const { code, value } = await this.tell({ do: "disarm" });
    return code === null ? (value as SeamCounts) : undefined;
  }

  signal(name: NodeJS.Signals): void {
    this.#child.kill(name);
  }

  get isStopped(): boolean {
    return !this.hasEnded && isStopped(this.pid);
  }

  untilStopped(): Promise<void> {
    return until(`the ${this.title} is stopped`, () => this.isStopped);
  }

  exited(): Promise<string> {
    return soon(`the ${this.title} ends`, this.#exited);
  }

  /** Fills its table of open files: sets its limit to the lowest free number. */
  fillFdTable(): void {
    const taken = new Set(readdirSync(`/proc/${this.pid}/fd`).map(Number));
    let free = 0;
    while (taken.has(free)) free += 1;
    this.#fdsLimit ??= this.#limit();
    execFileSync("prlimit", [`--pid=${this.pid}`, `--nofile=${free}:`]);
  }

  emptyFdTable(): void {
    if (this.#fdsLimit === undefined || this.hasEnded) return;
    execFileSync("prlimit", [`--pid=${this.pid}`, `--nofile=${this.#fdsLimit}:`]);
    this.#fdsLimit = undefined;
  }

  /** The number of its descriptors of memory, processes and sockets. */
  fds(): Readonly<Record<string, number>> {
    return fdsOf(this.pid);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.exited();
  }

  #limit(): string {
    const format = ["--noheadings", "--output=SOFT"];
    return execFileSync("prlimit", [`--pid=${this.pid}`, "--nofile", ...format], {
      encoding: "utf8",
    }).trim();
  }
}

/** The number of a process's descriptors of each kind. */
export function fdsOf(pid: number): Readonly<Record<string, number>> {
  const counts: Record<string, number> = { memory: 0, process: 0, socket: 0, all: 0 };
  for (const fd of readdirSync(`/proc/${pid}/fd`)) {
    const kind = kindOf(`/proc/${pid}/fd/${fd}`);
    if (kind === undefined) continue;
    counts[kind] = (counts[kind] ?? 0) + 1;
    counts.all = (counts.all ?? 0) + 1;
  }
  return counts;
}

export function isRunning(pid: number): boolean {
  const state = stateOf(pid);
  return state !== undefined && state !== "Z" && state !== "X";
}

function kindOf(path: string): string | undefined {
  try {
    const target = readlinkSync(path);
    if (target.startsWith("/memfd:")) return "memory";
    if (target.includes("pidfd")) return "process";
    return target.startsWith("socket:") ? "socket" : "other";
  } catch {
    return undefined;
  }
}
