/** A hub process in its own folder. It ends with the test. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  chownSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  writeFileSync,
} from "node:fs";
import { createInterface } from "node:readline";
import type { Readable } from "node:stream";
import { fileURLToPath } from "node:url";
import { type ConnectOptions, connect } from "../../src/client/connect.js";
import type { Hub } from "../../src/client/hub.js";
import { seamProgram } from "./seam/seam.js";
import { killHub, TestFolder } from "./test-folder.js";
import { soon } from "./until.js";

const HUB_MAIN = fileURLToPath(new URL("../../src/hub/main.js", import.meta.url));

export interface TestHubOptions {
  readonly idleMs?: number;
  /** The hub's limit of open descriptors. */
  readonly fdsMax?: number;
  /** Whether the hub and its keeper can be told to die at a system call. See `Seam`. */
  readonly withSeam?: boolean;
  /** A command that runs the hub, such as the one that `inContainer` returns. */
  readonly within?: (folder: string) => readonly string[];
  readonly folder?: TestFolder;
  /**
   * The user of the hub. Only root can set it. The user gets the folder, which others may enter.
   */
  readonly user?: { readonly uid: number; readonly gid: number };
  /** The content of its configuration file. */
  readonly config?: object;
  /** Whether its log goes to the file `log` of the folder. By default it is dropped. */
  readonly log?: boolean;
}

export class TestHub {
  readonly folder: TestFolder;
  readonly #child: ChildProcess;
  readonly #exited: Promise<unknown>;

  private constructor(folder: TestFolder, child: ChildProcess) {
    this.folder = folder;
    this.#child = child;
    this.#exited = once(child, "close");
  }

  /** Resolves once the hub listens. */
  static async start(options: TestHubOptions = {}): Promise<TestHub> {
    const folder = options.folder ?? new TestFolder();
    const idle = options.idleMs === undefined ? "Infinity" : String(options.idleMs);
    const limit =
      options.fdsMax === undefined
        ? []
        : ["prlimit", `--nofile=${options.fdsMax}:${options.fdsMax}`];
    const within = options.within?.(folder.path) ?? [];
    const program = options.withSeam === true ? seamProgram(folder.path) : process.execPath;
    const command = [
      ...limit,
      ...within,
      program,
      HUB_MAIN,
      "--socket",
      folder.socket,
      "--idle-ms",
      idle,
    ];
    prepareFolder(folder, options);
    const env = { ...process.env, XDG_CONFIG_HOME: folder.file("config") };
    const log = options.log === true ? openSync(folder.file("log"), "a+") : undefined;
    const child = spawn(command[0] as string, command.slice(1), {
      env,
      ...options.user,
      stdio: ["ignore", "pipe", log ?? "ignore"],
    });
    if (log !== undefined) closeSync(log);
    const hub = new TestHub(folder, child);
    const lines = createInterface({ input: child.stdout as Readable });
    const [line] = (await soon("the hub reports it is ready", once(lines, "line"))) as [string];
    if (JSON.parse(line).ready !== true) throw new Error(`The hub did not start: ${line}`);
    lines.close();
    return hub;
  }

  get socket(): string {
    return this.folder.socket;
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** The number of descriptors that the hub has open. */
  fdCount(): number {
    return readdirSync(`/proc/${this.pid}/fd`).length;
  }

  connect(options: ConnectOptions = {}): Promise<Hub> {
    return connect({ socket: this.socket, start: false, device: "host", ...options });
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Kills the hub and its keeper. Then there is no hub until somebody starts the next one. */
  async killWithKeeper(): Promise<void> {
    await killHub(this.folder.path);
    await this.exited();
  }

  async exited(): Promise<void> {
    await soon("the hub ends", this.#exited);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await killHub(this.folder.path);
    this.#child.kill("SIGKILL");
    await this.exited();
    await this.folder[Symbol.asyncDispose]();
  }
}

function prepareFolder(folder: TestFolder, { user, config }: TestHubOptions): void {
  if (config !== undefined) {
    mkdirSync(folder.file("config/cuda-ipc"), { recursive: true, mode: 0o755 });
    writeFileSync(folder.file("config/cuda-ipc/hub.json"), JSON.stringify(config), { mode: 0o644 });
  }
  if (user === undefined) return;
  chownSync(folder.path, user.uid, user.gid);
  chmodSync(folder.path, 0o755);
}
