/**
 * Writes the lines of a log to a descriptor of this process, and never waits. A line that cannot be
 * written at once is dropped: a full disk, a stopped terminal or a reader that does not read must
 * not stop the hub.
 */
import {
  closeSync,
  constants,
  fstatSync,
  ftruncateSync,
  openSync,
  readSync,
  type Stats,
  writeSync,
} from "node:fs";
import {
  type Log,
  type LogEvent,
  type LogFields,
  type LogFormat,
  type LogLevel,
  type LogSettings,
  logEvents,
  takesLevel,
} from "../base/log-events.js";
import { logLine } from "../base/log-line.js";
import { libc } from "../ffi/libc.js";
import { POLLOUT, pollFd } from "./file-calls.js";

const { O_APPEND } = constants;
const F_GETFL = 3;
const F_SETFL = 4;

const BYTES_MAX = 4 * 1024 * 1024;
const KEPT_BYTES = 1024 * 1024;

/** What systemd's journal makes of a prefix: sd-daemon(3). */
const PRIORITIES: Readonly<Record<LogLevel, string>> = {
  error: "<3>",
  warn: "<4>",
  info: "<6>",
  debug: "<7>",
};

/** A log that goes to this descriptor. A file is kept short. */
export function logTo(fd: number, { level, format }: LogSettings): Log {
  const output = new LogOutput(fd, format);
  return (event, message, fields) => {
    if (takesLevel(level, logEvents[event].level)) output.write(event, message, fields);
  };
}

class LogOutput {
  readonly #fd: number;
  readonly #format: LogFormat;
  /** Lines that could not be written since the last one that could. */
  #dropped = 0;
  /** The last line was written in part. */
  #isTorn = false;

  constructor(fd: number, format: LogFormat) {
    this.#fd = fd;
    this.#format = format;
  }

  readonly write: Log = (event, message, fields) => {
    const count = this.#dropped;
    const told = `${count} lines before this one were dropped`;
    const isTold = count === 0 || this.#tryWrite("lines-dropped", told, { count });
    this.#dropped = isTold && this.#tryWrite(event, message, fields) ? 0 : count + 1;
  };

  /** Returns false if the line cannot be written now. */
  #tryWrite(event: LogEvent, message: string, fields: LogFields = {}): boolean {
    try {
      const stats = fstatSync(this.#fd);
      if (stats.isFile()) dropOldLines(this.#fd, this.#format);
      // A pipe or socket with room takes a whole line.
      else if (!pollFd({ number: this.#fd }, POLLOUT, 0)) return false;
      const line = logLine(this.#format, { time: new Date(), event, message, fields });
      const priority = isJournal(stats) ? PRIORITIES[logEvents[event].level] : "";
      const bytes = Buffer.from(`${this.#isTorn ? "\n" : ""}${priority}${line}`);
      const written = writeSync(this.#fd, bytes);
      if (written > 0) this.#isTorn = written < bytes.byteLength;
      return written === bytes.byteLength;
    } catch {
      return false;
    }
  }
}

/** Whether systemd's journal reads this descriptor. systemd.exec(5), JOURNAL_STREAM. */
function isJournal({ dev, ino }: Stats): boolean {
  return process.env.JOURNAL_STREAM === `${dev}:${ino}`;
}

/** Shortens a log file over 4 MiB to its last lines, or to none if it cannot be read. */
export function dropOldLines(fd: number, format: LogFormat): void {
  const { size } = fstatSync(fd);
  if (size <= BYTES_MAX || !appends(fd)) return;
  const kept = Buffer.alloc(KEPT_BYTES);
  const length = tryRead(fd, kept, size - KEPT_BYTES);
  const begin = kept.indexOf("\n") + 1;
  ftruncateSync(fd, 0);
  writeSync(fd, noteOfDrop(format));
  writeSync(fd, kept.subarray(begin, length));
}

function noteOfDrop(format: LogFormat): string {
  if (format === "text") return "(earlier lines were dropped)\n";
  const message = "earlier lines were dropped";
  return logLine(format, { time: new Date(), event: "lines-dropped", message, fields: {} });
}

/**
 * Makes each write go to the end of the file. WHY: a shell opens `> file` without O_APPEND. After
 * the file is shortened, the next line would be written behind megabytes of zeros.
 * @returns false if the system refuses
 */
function appends(fd: number): boolean {
  const flags = libc().fcntl(fd, F_GETFL, 0);
  if (flags < 0) return false;
  return (flags & O_APPEND) !== 0 || libc().fcntl(fd, F_SETFL, flags | O_APPEND) >= 0;
}

/**
 * Opens the file for reading, because a shell opens `> file` only for writing.
 * @returns 0 on failure: the log must still be usable
 */
function tryRead(fd: number, into: Uint8Array, byteOffset: number): number {
  try {
    const reader = openSync(`/proc/self/fd/${fd}`, "r");
    try {
      return readSync(reader, into, 0, into.byteLength, byteOffset);
    } finally {
      closeSync(reader);
    }
  } catch {
    return 0;
  }
}
