/**
 * Runs Python programs next to a hub that they share with the test, and says whether there is a
 * Python.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";

const python = process.env.PYTHON ?? "python3";
const root = new URL("../../../../", import.meta.url);
const clientFolder = fileURLToPath(new URL("examples/python", root));
const hubProgram = fileURLToPath(new URL("build/src/hub/main.js", root));

export const skip = whyNot();

function whyNot(): string | false {
  const probe = spawnSync(python, ["-c", "import sys, os; sys.exit(sys.version_info < (3, 9))"]);
  if (probe.status === 0) return false;
  const problem = probe.error?.message ?? "it is older than 3.9";
  if (process.env.REQUIRE_PYTHON === "1")
    throw new Error(`REQUIRE_PYTHON=1, but ${python}: ${problem}`);
  return `needs python3 of at least 3.9: ${problem}`;
}

/** A hub of the test's own. */
export class HubProcess {
  readonly #child: ChildProcess;

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  static async start(socket: string): Promise<HubProcess> {
    const child = spawn(process.execPath, [hubProgram, "--socket", socket, "--idle-ms", "60000"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const ready = await lines(child).next();
    assert.equal(ready.done, false, "the hub ended before it was ready");
    return new HubProcess(child);
  }

  async end(): Promise<void> {
    if (this.#child.exitCode !== null || this.#child.signalCode !== null) return;
    const ended = once(this.#child, "exit");
    this.#child.kill("SIGTERM");
    await ended;
  }
}

/**
 * A running peer: `said()` is the next value that it prints, and `finish()` ends it and checks its
 * exit code.
 */
export class PythonPeer {
  readonly #child: ChildProcess;
  readonly #exit: Promise<unknown[]>;
  readonly #lines: AsyncIterator<string>;
  #errors = "";

  /** @param script in this folder */
  constructor(script: string, socket: string, command: string, ...names: string[]) {
    const peer = fileURLToPath(new URL(`test/process/python/${script}`, root));
    this.#child = spawn(python, [peer, clientFolder, socket, command, ...names], { stdio: "pipe" });
    this.#exit = once(this.#child, "close");
    this.#lines = lines(this.#child);
    this.#child.stderr?.on("data", (chunk) => {
      this.#errors += chunk;
    });
  }

  async said(): Promise<unknown> {
    const line = await this.#lines.next();
    if (line.done === true) assert.fail(`Python ended: ${this.#errors}`);
    return JSON.parse(line.value);
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

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#exit;
  }
}

function lines(child: ChildProcess): AsyncIterator<string> {
  assert.ok(child.stdout);
  return createInterface({ input: child.stdout })[Symbol.asyncIterator]();
}
