/** A folder that stands in for /proc. Some of its processes never answer. */
import { execFileSync } from "node:child_process";
import { closeSync, constants, mkdirSync, openSync, writeFileSync } from "node:fs";
import { TestFolder } from "./test-folder.js";
import { until } from "./until.js";

export class FakeProc {
  readonly #folder = new TestFolder();

  get path(): string {
    return this.#folder.path;
  }

  file(pid: number, name: string): string {
    return this.#folder.file(`${pid}/${name}`);
  }

  /** @param files of the process, such as `cmdline` */
  add(pid: number, files: Readonly<Record<string, string>>): void {
    mkdirSync(this.#folder.file(String(pid)), { recursive: true });
    for (const [name, content] of Object.entries(files))
      writeFileSync(this.file(pid, name), content);
  }

  /** Its command line never answers: a FIFO that nobody writes. */
  addSilent(pid: number, files: Readonly<Record<string, string>> = {}): void {
    this.add(pid, files);
    execFileSync("mkfifo", [this.file(pid, "cmdline")]);
  }

  /** Resolves when somebody waits for the command line of a silent process. It still waits then. */
  async isAsked(pid: number): Promise<void> {
    await until(`somebody asks process ${pid}`, () => {
      try {
        this.#writers.push(
          openSync(this.file(pid, "cmdline"), constants.O_WRONLY | constants.O_NONBLOCK),
        );
        return true;
      } catch {
        return false;
      }
    });
  }

  readonly #writers: number[] = [];

  [Symbol.dispose](): void {
    for (const fd of this.#writers) closeSync(fd);
    this.#folder[Symbol.dispose]();
  }
}
