/**
 * A process that carries out orders, for benchmarks that need several processes. An order is a line
 * of JSON on its standard input: `{id, order, ...}`. The answer is a line on its standard output.
 * Several orders may run at a time. helper-side.ts is the other side.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { Deadline } from "../../src/base/deadline.js";

const ORDER_LIMIT_MS = 60_000;

interface Pending {
  readonly resolve: (result: unknown) => void;
  readonly reject: (error: Error) => void;
}

export class HelperProcess {
  readonly #child: ChildProcess & { readonly stdin: Writable; readonly stdout: Readable };
  readonly #pending = new Map<number, Pending>();
  readonly #exited: Promise<void>;
  readonly #name: string;
  #lastId = 0;
  #hasExited = false;

  /** @param actor the name of a file in bench/actors */
  constructor(actor: string) {
    this.#name = actor;
    const path = fileURLToPath(new URL(`../actors/${actor}.js`, import.meta.url));
    const child = spawn(process.execPath, [path], { stdio: ["pipe", "pipe", "inherit"] });
    this.#child = child;
    // Orders to an ended process fail below.
    child.stdin.on("error", () => {});
    createInterface({ input: child.stdout }).on("line", (line) => this.#onAnswer(line));
    this.#exited = new Promise((resolve) => {
      child.once("close", (code, signal) => {
        this.#hasExited = true;
        for (const { reject } of this.#pending.values())
          reject(new Error(`${actor} ended (${signal ?? code})`));
        this.#pending.clear();
        resolve();
      });
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Sends an order and returns the answer, whose type the caller gives. */
  async tell<Answer>(order: string, fields: object = {}): Promise<Answer> {
    if (this.#hasExited) throw new Error(`${this.#name} has ended and cannot ${order}`);
    this.#lastId += 1;
    const id = this.#lastId;
    const answer = new Promise<unknown>((resolve, reject) =>
      this.#pending.set(id, { resolve, reject }),
    );
    this.#child.stdin.write(`${JSON.stringify({ ...fields, id, order })}\n`);
    const deadline = new Deadline(`${order} (${this.#name})`, {}, ORDER_LIMIT_MS);
    return (await deadline.race(answer, () => this.#pending.delete(id))) as Answer;
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exited;
  }

  #onAnswer(line: string): void {
    const { id, ok, result, error } = JSON.parse(line);
    const pending = this.#pending.get(id);
    this.#pending.delete(id);
    if (ok) pending?.resolve(result);
    else pending?.reject(new Error(error));
  }
}
