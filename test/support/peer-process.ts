/** A program in another language that prints lines of JSON and may wait for lines of input. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";

/**
 * A running peer. `said()` is the next value that it prints. `finish()` ends its input and checks
 * its exit code.
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
    const line = await this.#lines.next();
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
    const [code, signal] = await this.#exit;
    assert.equal(code ?? signal, 0, this.#errors);
  }

  /** Resolves to what it wrote to standard error, once it has ended. */
  async errors(): Promise<string> {
    await this.#exit;
    return this.#errors;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exit;
  }
}
