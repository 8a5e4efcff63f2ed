/** A program in another language that prints lines of JSON and may wait for lines of input. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";

/** Longer than any limit of a peer, so that a peer that is too late says why itself. */
const LIMIT_MS = 90_000;

/**
 * A running peer. `said()` is the next value that it prints. `finish()` ends its input and checks
 * its exit code. Each wait has a limit, and a peer that is over it is killed.
 */
export class PeerProcess {
  readonly #child: ChildProcess;
  readonly #exit: Promise<unknown[]>;
  readonly #lines: AsyncIterator<string>;
  #errors = "";

  constructor(command: string, args: readonly string[], env: Readonly<NodeJS.ProcessEnv> = {}) {
    this.#child = spawn(command, args, { stdio: "pipe", env: { ...process.env, ...env } });
    this.#exit = once(this.#child, "close");
    this.#lines = createInterface({ input: this.#child.stdout ?? process.stdin })[
      Symbol.asyncIterator
    ]();
    this.#child.stderr?.on("data", (chunk) => {
      this.#errors += chunk;
    });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Its next line, as it is. */
  async line(): Promise<string> {
    const line = await this.#limited("print a line", this.#lines.next());
    if (line.done === true) assert.fail(`The peer ended: ${this.#errors}`);
    return line.value;
  }

  async said(): Promise<unknown> {
    return JSON.parse(await this.line());
  }

  /** Writes one line to its input. */
  tell(line = "go"): void {
    this.#child.stdin?.write(`${line}\n`);
  }

  endInput(): void {
    this.#child.stdin?.end();
  }

  async finish(): Promise<void> {
    this.endInput();
    const [code, signal] = await this.#limited("end", this.#exit);
    assert.equal(code ?? signal, 0, this.#errors);
  }

  /** Resolves to what it wrote to standard error, once it has ended. */
  async errors(): Promise<string> {
    await this.#limited("end", this.#exit);
    return this.#errors;
  }

  async #limited<T>(what: string, promise: Promise<T>): Promise<T> {
    let timer: NodeJS.Timeout | undefined;
    const late = new Promise<never>((_, reject) => {
      timer = setTimeout(() => {
        const where = this.#whereItWaits();
        this.#child.kill("SIGKILL");
        const found = `${where}; it has written: ${this.#errors}`;
        reject(new Error(`The peer did not ${what} within ${LIMIT_MS} ms. It waits in ${found}`));
      }, LIMIT_MS);
    });
    return Promise.race([promise, late]).finally(() => clearTimeout(timer));
  }

  /** The function of the kernel that it is in. */
  #whereItWaits(): string {
    try {
      return readFileSync(`/proc/${this.pid}/wchan`, "utf8") || "no known function";
    } catch (error) {
      return String(error);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exit;
  }
}
