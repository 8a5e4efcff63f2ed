/** A hub process in its own folder. Both are always removed. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { Deadline } from "../../src/base/deadline.js";
import { connect } from "../../src/index.js";

const HUB_MAIN = fileURLToPath(new URL("../../src/hub/main.js", import.meta.url));
const START_LIMIT_MS = 30_000;

export interface HubProcessOptions {
  /** The folder of an earlier hub. The default is a new folder. */
  readonly socket?: string;
}

export class HubProcess {
  readonly socket: string;
  /** The time from the start of the process until it listens. */
  readonly startMs: number;
  readonly #folder: string | undefined;
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;

  private constructor(
    folder: string | undefined,
    socket: string,
    child: ChildProcess,
    startMs: number,
  ) {
    this.#folder = folder;
    this.socket = socket;
    this.#child = child;
    this.startMs = startMs;
    this.#exited = once(child, "exit");
  }

  /** Resolves once the hub listens. */
  static async start({ socket: given }: HubProcessOptions = {}): Promise<HubProcess> {
    const folder = given === undefined ? mkdtempSync(join(tmpdir(), "cuda-ipc-bench-")) : undefined;
    const socket = given ?? join(folder ?? "", "hub.sock");
    const before = performance.now();
    const args = [HUB_MAIN, "--socket", socket, "--idle-ms", "Infinity"];
    const child = spawn(process.execPath, args, { stdio: ["ignore", "pipe", "ignore"] });
    try {
      const line = await new Deadline("start a hub", {}, START_LIMIT_MS).race(
        firstLine(child.stdout),
        () => {},
      );
      if (JSON.parse(line).ready !== true) throw new Error(`The hub did not start: ${line}`);
      return new HubProcess(folder, socket, child, performance.now() - before);
    } catch (error) {
      child.kill("SIGKILL");
      if (folder !== undefined) rmSync(folder, { recursive: true, force: true });
      throw error;
    }
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    if (this.#child.exitCode === null && this.#child.signalCode === null) await this.#exited;
  }

  /** Kills the current hub and its keeper. Their files stay. */
  async [Symbol.asyncDispose](): Promise<void> {
    const options = { socket: this.socket, device: "host", start: false, reconnect: false };
    const hub = await connect(options).catch(() => undefined);
    const status = await hub?.status().catch(() => undefined);
    // Stopped first, because the hub would start another keeper, and the keeper another hub.
    if (status !== undefined) process.kill(status.pid, "SIGSTOP");
    if (status?.keeper) process.kill(status.keeper.pid, "SIGKILL");
    if (status !== undefined) process.kill(status.pid, "SIGKILL");
    await hub?.close().catch(() => {});
    await this.kill();
    if (this.#folder !== undefined) rmSync(this.#folder, { recursive: true, force: true });
  }
}

function firstLine(stdout: Readable): Promise<string> {
  return new Promise((resolve, reject) => {
    const lines = createInterface({ input: stdout });
    lines.once("line", (line) => {
      resolve(line);
      lines.close();
    });
    lines.once("close", () => reject(new Error("The hub ended before it listened")));
  });
}
