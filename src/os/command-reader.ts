/**
 * Reads the command lines of other processes, in a child process.
 * WHY: the kernel takes the lock of a process's memory (mmap_lock) to read its `cmdline`,
 * `environ`, `maps` or `mem`. A process can hold that lock forever, by a mapping of a FUSE file
 * whose server does not answer. No flag keeps the read from waiting. A thread of the pool that
 * waits keeps its process from exiting, but a child can be killed. The kernel does not take the
 * lock for `stat`, `status`, `statm`, `comm`, `cgroup`, `exe`, `fd`, `ns` and `task` (measured).
 */
import { type ChildProcess, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { createConstantFile } from "./memory-file.js";

const LIMIT_MS = 1000;
const READ_AT_ONCE = 256;
/** Longer command lines are cut. */
const COMMAND_BYTES_MAX = 4096;
const COMMAND_CHARACTERS_MAX = 1024;
/** WHY random: the command line of a process could hold a known text. */
const SEPARATOR_BYTES = 32;
const SEPARATOR_FD = 3;

export interface CommandReaderOptions {
  readonly proc?: string;
  readonly limitMs?: number;
}

export interface CommandLines {
  /**
   * In the order of the pids that were asked for. It is shorter if not all were read. Undefined for
   * a process that has ended, may not be looked at, or does not answer.
   */
  readonly texts: readonly (string | undefined)[];
  /** The last of the texts belongs to a process that did not answer in time. */
  readonly isLate: boolean;
}

export class CommandReader {
  readonly #proc: string;
  readonly #limitMs: number;
  /** At most one runs. It can outlive its read: kernels before 5.8 do not let it die. */
  #child: ChildProcess | undefined;
  #giveUp: () => void = () => {};

  constructor(options: CommandReaderOptions = {}) {
    this.#proc = options.proc ?? "/proc";
    this.#limitMs = options.limitMs ?? LIMIT_MS;
  }

  get isBusy(): boolean {
    return this.#child !== undefined;
  }

  /** Reads until a process does not answer in time. Do not call it while the reader is busy. */
  async read(pids: readonly number[]): Promise<CommandLines> {
    const asked = pids.slice(0, READ_AT_ONCE);
    const separator = randomBytes(SEPARATOR_BYTES);
    const found = new SeparatedTexts(separator);
    let isLate = false;
    try {
      isLate = await this.#runCat(asked, separator, (bytes) => found.add(bytes));
    } catch {
      // This machine has no `cat`, or no room for another process.
    }
    const texts = found.texts.map(commandOf);
    const read = isLate ? Math.min(texts.length + 1, asked.length) : asked.length;
    return { texts: asked.slice(0, read).map((_, index) => texts[index]), isLate };
  }

  /** Ends a read that runs. What it has read so far is its result. */
  giveUp(): void {
    this.#giveUp();
  }

  /** Resolves to true if it did not end in time. */
  async #runCat(
    pids: readonly number[],
    separator: Uint8Array,
    hear: (bytes: Buffer) => void,
  ): Promise<boolean> {
    using between = createConstantFile("separator", separator);
    const paths = pids.flatMap((pid) => [
      `${this.#proc}/${pid}/cmdline`,
      `/proc/self/fd/${SEPARATOR_FD}`,
    ]);
    const child = spawn("cat", paths, { stdio: ["ignore", "pipe", "ignore", between.number] });
    this.#child = child;
    child.once("exit", () => {
      this.#child = undefined;
    });
    child.stdout?.on("data", hear);
    let timer: NodeJS.Timeout | undefined;
    try {
      return await new Promise((resolve, reject) => {
        let isLate = false;
        this.#giveUp = () => {
          clearTimeout(timer);
          isLate = true;
          child.kill("SIGKILL");
          // WHY: what it wrote before can be on its way.
          timer = setTimeout(() => resolve(true), this.#limitMs);
        };
        timer = setTimeout(this.#giveUp, this.#limitMs);
        child.once("close", () => resolve(isLate));
        child.once("error", (error) => {
          this.#child = undefined;
          reject(error);
        });
      });
    } finally {
      clearTimeout(timer);
      this.#giveUp = () => {};
      child.stdout?.destroy();
      child.unref();
    }
  }
}

function commandOf(bytes: Buffer): string | undefined {
  const text = bytes.toString("utf8").replaceAll("\0", " ").trim();
  return text === "" ? undefined : text.slice(0, COMMAND_CHARACTERS_MAX);
}

/** Splits what arrives in pieces, and keeps the beginning of each text. */
class SeparatedTexts {
  readonly texts: Buffer[] = [];
  readonly #separator: Uint8Array;
  #rest = Buffer.alloc(0);

  constructor(separator: Uint8Array) {
    this.#separator = separator;
  }

  add(bytes: Buffer): void {
    this.#rest = Buffer.concat([this.#rest, bytes]);
    for (;;) {
      const end = this.#rest.indexOf(this.#separator);
      if (end < 0) break;
      this.texts.push(this.#rest.subarray(0, Math.min(end, COMMAND_BYTES_MAX)));
      this.#rest = this.#rest.subarray(end + this.#separator.byteLength);
    }
    // The end may be the beginning of a separator.
    if (this.#rest.byteLength > COMMAND_BYTES_MAX + SEPARATOR_BYTES) {
      const start = this.#rest.subarray(0, COMMAND_BYTES_MAX);
      this.#rest = Buffer.concat([start, this.#rest.subarray(-SEPARATOR_BYTES)]);
    }
  }
}
