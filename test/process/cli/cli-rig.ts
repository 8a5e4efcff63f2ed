/** Runs the built command in separate processes, with its own hub in a temporary folder. */
import assert from "node:assert/strict";
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";

/** The compiled command line. */
export const LAUNCH = fileURLToPath(new URL("../../../src/cli/launch.cjs", import.meta.url));
const TIMEOUT_MS = 60_000;

export interface Outcome {
  /** As in a shell: 128 plus the signal's number for a process that a signal ended. */
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Started {
  readonly child: ChildProcess;
  readonly outcome: Promise<Outcome>;
}

export class CliRig {
  readonly folder: string;
  readonly socket: string;
  readonly env: NodeJS.ProcessEnv;

  private constructor(folder: string) {
    this.folder = folder;
    this.socket = join(folder, "hub.sock");
    const { NODE_OPTIONS: _, ...inherited } = process.env;
    this.env = {
      ...inherited,
      CUDA_IPC_SOCKET: this.socket,
      CUDA_IPC_DEVICE: "host",
      TMPDIR: folder,
    };
  }

  static async open(): Promise<CliRig> {
    return new CliRig(await mkdtemp(join(tmpdir(), "cuda-ipc-test-")));
  }

  path(name: string): string {
    return join(this.folder, name);
  }

  start(...args: string[]): Started {
    const child = spawn(process.execPath, [LAUNCH, ...args], {
      cwd: this.folder,
      env: this.env,
      timeout: TIMEOUT_MS,
    });
    return { child, outcome: outcomeOf(child) };
  }

  run(...args: string[]): Promise<Outcome> {
    return this.start(...args).outcome;
  }

  /** Like `run`, for a command that must succeed. Returns its standard output. */
  async ok(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run(...args);
    assert.equal(code, 0, `cuda-ipc ${args.join(" ")}: ${stderr}`);
    return stdout;
  }

  /** Like `run`, for `hub status` while no hub runs. Returns its standard output. */
  async statusWithoutHub(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await this.run("hub", "status", ...args);
    assert.deepEqual({ code, stderr }, { code: 1, stderr: "" });
    return stdout;
  }

  async json<T>(...args: string[]): Promise<T> {
    return JSON.parse(await this.ok(...args, "--json")) as T;
  }

  /** Like `run`, for a command that must end with this error. Returns its standard error. */
  async fails(code: string, ...args: string[]): Promise<string> {
    const outcome = await this.run(...args);
    assert.equal(outcome.code, code === "USAGE" ? 2 : 1, outcome.stderr);
    assert.match(outcome.stderr, new RegExp(`^error\\[${code}\\]: .+[.?'](\n|$)`), outcome.stderr);
    if (code !== "USAGE") assert.match(outcome.stderr, /\n {2}hint: \S/);
    assert.doesNotMatch(outcome.stderr, /^ {4}at /m, "a stack trace is not for users");
    return outcome.stderr;
  }

  join(program?: string): Promise<Hub> {
    return connect({ socket: this.socket, device: "host", program });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // A hub keeps files beside its socket from its start. Most commands start no hub.
    const left = await readdir(this.folder);
    if (left.some((name) => name.startsWith("hub.sock"))) await this.run("hub", "stop", "--force");
    await rm(this.folder, { recursive: true, force: true });
  }
}

/** Polls until the answer is not undefined. */
export async function eventually<T>(
  what: string,
  ask: () => Promise<T | undefined> | T | undefined,
): Promise<T> {
  const endMs = performance.now() + TIMEOUT_MS;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined) return answer;
    assert.ok(performance.now() < endMs, `waited too long: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 2));
  }
}

export function outcomeOf(child: ChildProcess): Promise<Outcome> {
  let stdout = "";
  let stderr = "";
  child.stdout?.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  child.stderr?.setEncoding("utf8").on("data", (text: string) => {
    stderr += text;
  });
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) =>
      resolve({ code: code ?? (signal === "SIGKILL" ? 137 : 128), stdout, stderr }),
    );
  });
}
