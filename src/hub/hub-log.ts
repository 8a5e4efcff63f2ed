/** The hub's log: standard error, without endless repetition and without endless growth. */
import { fstatSync, ftruncateSync, readSync, writeSync } from "node:fs";
import { CudaIpcError, messageOf } from "../base/errors.js";

const INTERVAL_MS = 10_000;
const LINES_PER_KIND = 5;
/** Further kinds count as one. */
const KINDS_MAX = 100;

const STDERR = 2;
const BYTES_MAX = 4 * 1024 * 1024;
const KEPT_BYTES = 1024 * 1024;

interface Kind {
  lines: number;
  last: string;
}

/**
 * Writes the first few lines of a kind, and then one line for all others of an interval. Without it
 * a user whom the hub refuses could fill the disk.
 */
export class LimitedLog {
  readonly #write: (line: string) => void;
  readonly #kinds = new Map<string, Kind>();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: (line: string) => void) {
    this.#write = write;
  }

  readonly log = (line: string): void => {
    const key = this.#keyOf(line);
    const kind = this.#kinds.get(key) ?? { lines: 0, last: line };
    this.#kinds.set(key, kind);
    kind.lines += 1;
    kind.last = line;
    if (kind.lines <= LINES_PER_KIND) this.#write(line);
    this.#timer ??= setTimeout(() => this.flush(), INTERVAL_MS).unref();
  };

  /** Writes how many lines were left out, and starts counting again. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const kinds = [...this.#kinds.values()];
    this.#kinds.clear();
    for (const { lines, last } of kinds) {
      if (lines > LINES_PER_KIND)
        this.#write(`${lines - LINES_PER_KIND} more like this, the last of them: ${last}`);
    }
  }

  #keyOf(line: string): string {
    const key = kindOf(line);
    return this.#kinds.has(key) || this.#kinds.size < KINDS_MAX ? key : "";
  }
}

/** The line without names and numbers. It keeps the uid, because each user gets its own lines. */
function kindOf(line: string): string {
  return line.replace(/user \d+|"[^"]*"|\d+/g, (found) => (found.startsWith("user") ? found : "#"));
}

/** Writes a line with the time to standard error, which `connect()` makes a file for the hub. */
export function logToStderr(line: string): void {
  try {
    dropOldLines(STDERR);
    writeSync(STDERR, `${new Date().toISOString()}  ${line}\n`);
  } catch {
    // A full disk must not end the hub and lose what it keeps. The next line may find room.
  }
}

/** Shortens a log file over 4 MiB to its last lines, or to none if it cannot be read. */
export function dropOldLines(fd: number): void {
  const stats = fstatSync(fd);
  if (!stats.isFile() || stats.size <= BYTES_MAX) return;
  const kept = Buffer.alloc(KEPT_BYTES);
  const length = tryRead(fd, kept, stats.size - KEPT_BYTES);
  const begin = kept.indexOf("\n") + 1;
  ftruncateSync(fd, 0);
  writeSync(fd, "(earlier lines were dropped)\n");
  writeSync(fd, kept.subarray(begin, length));
}

/** Returns 0 on failure: a log that is open only for writing must still be usable. */
function tryRead(fd: number, into: Uint8Array, byteOffset: number): number {
  try {
    return readSync(fd, into, 0, into.byteLength, byteOffset);
  } catch {
    return 0;
  }
}

export function describeError(error: unknown): string {
  if (error instanceof CudaIpcError) return `${error.code}: ${error.message}`;
  return messageOf(error);
}
