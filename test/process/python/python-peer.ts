/**
 * Runs Python programs beside a hub that they share with the test, and reports if Python is
 * missing.
 */
import assert from "node:assert/strict";
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { PeerProcess } from "../../support/peer-process.js";

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

/** A hub for one test. */
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

/** Runs a script of this folder. */
export class PythonPeer extends PeerProcess {
  constructor(script: string, socket: string, command: string, ...names: string[]) {
    const peer = fileURLToPath(new URL(`test/process/python/${script}`, root));
    super(python, [peer, clientFolder, socket, command, ...names]);
  }
}

function lines(child: ChildProcess): AsyncIterator<string> {
  assert.ok(child.stdout);
  return createInterface({ input: child.stdout })[Symbol.asyncIterator]();
}
