/** A program in Python, with the package of the sources. It ends with the test. */
import assert from "node:assert/strict";
import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { soon, until } from "./until.js";

const SOURCES = fileURLToPath(new URL("../../../python/src", import.meta.url));

export class PythonProgram implements AsyncDisposable {
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #closed: Promise<unknown>;
  said = "";
  complaint = "";

  /** @param socket of a hub, the program's only argument */
  constructor(program: string, socket: string) {
    const env = { ...process.env, PYTHONPATH: SOURCES, PYTHONDONTWRITEBYTECODE: "1" };
    const python = process.env.PYTHON ?? "python3";
    this.#child = spawn(python, ["-c", program, socket], { env });
    this.#closed = once(this.#child, "close");
    this.#child.stdout.setEncoding("utf8").on("data", (text: string) => {
      this.said += text;
    });
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.complaint += text;
    });
  }

  get hasEnded(): boolean {
    return this.#child.exitCode !== null || this.#child.signalCode !== null;
  }

  async says(text: string): Promise<void> {
    await until(`Python says "${text}"`, () => {
      assert.ok(!this.hasEnded || this.said.includes(text), this.complaint);
      return this.said.includes(text);
    });
  }

  async ended(): Promise<void> {
    await soon("Python ends", this.#closed);
    assert.equal(this.#child.exitCode, 0, this.complaint);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#closed;
  }
}
