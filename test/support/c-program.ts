/** Compiles C programs of the tests, and runs them as the other side of an exchange. */
import { type ChildProcessByStdio, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import type { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { soon } from "./until.js";

/** @param path of the source, from the folder `test` */
export class CProgram {
  readonly #binary: string;

  private constructor(binary: string) {
    this.#binary = binary;
  }

  /** The program, or why there is none here. It is removed when this process ends. */
  static compile(path: string): CProgram | string {
    const source = fileURLToPath(new URL(`../../../test/${path}`, import.meta.url));
    if (!existsSync(source)) return `no ${source}`;
    const compiler = ["cc", "gcc", "clang"].find(
      (name) => spawnSync(name, ["--version"]).status === 0,
    );
    if (compiler === undefined) return "no C compiler (cc, gcc, clang)";
    const folder = mkdtempSync(join(tmpdir(), "cuda-ipc-c-"));
    process.once("exit", () => rmSync(folder, { recursive: true, force: true }));
    const binary = join(folder, "program");
    const flags = ["-O1", "-Wall", "-Werror", "-Wl,--no-as-needed", "-ldl"];
    const { status, stderr } = spawnSync(compiler, [...flags, "-o", binary, source], {
      encoding: "utf8",
    });
    if (status !== 0) throw new Error(`${compiler} ended with ${status}: ${stderr}`);
    return new CProgram(binary);
  }

  start(...args: readonly string[]): CProcess {
    return new CProcess(this.#binary, args);
  }
}

/** A running C program, which says what it did in lines. */
export class CProcess {
  readonly #child: ChildProcessByStdio<Writable, Readable, Readable>;
  readonly #lines: AsyncIterator<string>;
  readonly #ended: Promise<number | string>;
  #complaint = "";

  constructor(binary: string, args: readonly string[]) {
    this.#child = spawn(binary, args, { stdio: ["pipe", "pipe", "pipe"] });
    this.#child.stdin.on("error", () => {});
    this.#child.stderr.setEncoding("utf8").on("data", (text: string) => {
      this.#complaint += text;
    });
    this.#lines = createInterface({ input: this.#child.stdout })[Symbol.asyncIterator]();
    this.#ended = once(this.#child, "close").then(
      ([code, signal]) => (signal ?? code) as number | string,
    );
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  async says(): Promise<string> {
    const { value, done } = await soon("the C program says something", this.#lines.next());
    if (done) throw new Error(`It ended (${await this.#ended}) without a word: ${this.#complaint}`);
    return value;
  }

  goOn(): void {
    this.#child.stdin.write("\n");
  }

  kill(): void {
    this.#child.kill("SIGKILL");
  }

  /** Its exit code or the signal that ended it, and what it complained of. */
  async ended(): Promise<string> {
    return `${await soon("the C program ends", this.#ended)}${this.#complaint}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill();
    await this.ended();
  }
}
