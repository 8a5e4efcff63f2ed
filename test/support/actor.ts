/**
 * A process with one role in a test. It reports in lines of JSON, and waits for lines of the test
 * before it goes on.
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface, type Interface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { soon } from "./until.js";

export interface ActorOptions {
  readonly args?: readonly string[];
  readonly execArgv?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** Its limit of open descriptors. */
  readonly fdsMax?: number;
  /** The user and group of the process. Only root can set them. */
  readonly user?: { readonly uid: number; readonly gid: number };
  /** A command that runs it, such as one of `inContainer`. */
  readonly within?: readonly string[];
  /** Descriptors to pass to it. They get the numbers 3, 4 and so on. */
  readonly fds?: readonly number[];
}

export class Actor {
  readonly #child: ChildProcess & {
    readonly stdin: Writable;
    readonly stdout: Readable;
    readonly stderr: Readable;
  };
  readonly #lines: AsyncIterator<string>;
  readonly #interface: Interface;
  readonly #exited: Promise<number | string>;
  #complaint = "";

  /** @param file a compiled program, or one in Python, as a URL */
  constructor(file: URL, options: ActorOptions = {}) {
    const limit =
      options.fdsMax === undefined
        ? []
        : ["prlimit", `--nofile=${options.fdsMax}:${options.fdsMax}`];
    const path = fileURLToPath(file);
    const runs = path.endsWith(".py") ? ["python3"] : [process.execPath];
    const program = [...runs, ...(options.execArgv ?? []), path, ...(options.args ?? [])];
    const [command = process.execPath, ...args] = [...limit, ...(options.within ?? []), ...program];
    const env = { ...process.env, ...options.env };
    delete env.NODE_TEST_CONTEXT;
    const child = spawn(command, args, {
      env,
      ...options.user,
      stdio: ["pipe", "pipe", "pipe", ...(options.fds ?? [])],
    });
    this.#child = child as ChildProcess & {
      readonly stdin: Writable;
      readonly stdout: Readable;
      readonly stderr: Readable;
    };
    this.#child.stdin.on("error", () => {});
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#complaint += text;
    });
    this.#interface = createInterface({ input: this.#child.stdout });
    this.#lines = this.#interface[Symbol.asyncIterator]();
    this.#exited = once(this.#child, "close").then(
      ([code, signal]) => (signal ?? code) as number | string,
    );
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Its standard error so far. */
  get complaint(): string {
    return this.#complaint;
  }

  /** Waits for its next report. */
  async says(): Promise<unknown> {
    const { value, done } = await soon("the actor reports something", this.#lines.next());
    if (done)
      throw new Error(`The actor ended (${await this.#exited}) with no report: ${this.#complaint}`);
    return JSON.parse(value);
  }

  /**
   * Lets a waiting actor go on.
   * @param line the command, for actors that know several
   */
  goOn(line = ""): void {
    this.#child.stdin.write(`${line}\n`);
  }

  kill(signal: NodeJS.Signals): void {
    this.#child.kill(signal);
  }

  /** Its exit code or the signal that ended it. */
  exited(): Promise<number | string> {
    return soon("the actor ends", this.#exited);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.exited();
    this.#interface.close();
  }
}
