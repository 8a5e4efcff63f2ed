/** The hub's log without endless repetition: a user whom the hub refuses must not fill the disk. */
import { CudaIpcError, messageOf } from "../base/errors.js";
import {
  type Log,
  type LogEvent,
  type LogFields,
  type LogSettings,
  logEvents,
} from "../base/log-events.js";
import { logTo } from "../os/log-output.js";
import { isStartedByKeeper } from "../os/received-fds.js";

const INTERVAL_MS = 10_000;
const LINES_PER_KIND = 5;
/** Further kinds count as one. */
const KINDS_MAX = 100;

const STANDARD_OUTPUT = 1;
/** `connect()` and the keeper make it the file beside the socket. */
const STANDARD_ERROR = 2;

/** The log of a hub that `connect()` or a keeper started. */
export function backgroundLog(settings: LogSettings): Log {
  return logTo(STANDARD_ERROR, settings);
}

/** The log of `hub serve`. Call it before `HubService.ofProcess`. */
export function foregroundLog(settings: LogSettings): Log {
  return isStartedByKeeper() ? backgroundLog(settings) : logTo(STANDARD_OUTPUT, settings);
}

interface Line {
  readonly event: LogEvent;
  readonly message: string;
  readonly fields: LogFields | undefined;
}

interface Kind {
  lines: number;
  last: Line;
}

/**
 * Writes the first few lines of a kind, and then one line for all others of an interval. Lines of
 * level `debug` are all written: whoever asks for them wants each.
 */
export class LimitedLog {
  readonly #write: Log;
  readonly #kinds = new Map<string, Kind>();
  #timer: NodeJS.Timeout | undefined;

  constructor(write: Log) {
    this.#write = write;
  }

  readonly log: Log = (event, message, fields) => {
    if (logEvents[event].level === "debug") {
      this.#write(event, message, fields);
      return;
    }
    const line: Line = { event, message, fields };
    const key = this.#keyOf(line);
    const kind = this.#kinds.get(key) ?? { lines: 0, last: line };
    this.#kinds.set(key, kind);
    kind.lines += 1;
    kind.last = line;
    if (kind.lines <= LINES_PER_KIND) this.#write(event, message, fields);
    this.#timer ??= setTimeout(() => this.flush(), INTERVAL_MS).unref();
  };

  /** Writes how many lines were left out, and starts counting again. */
  flush(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const kinds = [...this.#kinds.values()];
    this.#kinds.clear();
    for (const { lines, last } of kinds) {
      const count = lines - LINES_PER_KIND;
      if (count <= 0) continue;
      const message = `${count} more like this, the last of them: ${last.message}`;
      this.#write(last.event, message, { ...last.fields, count });
    }
  }

  #keyOf(line: Line): string {
    const key = kindOf(line);
    return this.#kinds.has(key) || this.#kinds.size < KINDS_MAX ? key : "";
  }
}

/** The message without names and numbers. It has the uid, because each user gets its own lines. */
function kindOf({ message, fields }: Line): string {
  return `${fields?.uid ?? ""} ${message.replace(/"[^"]*"|\d+/g, "#")}`;
}

export function describeError(error: unknown): string {
  if (error instanceof CudaIpcError) return `${error.code}: ${error.message}`;
  return messageOf(error);
}

/** The field `code` of a line about this error. */
export function codeOf(error: unknown): Pick<LogFields, "code"> {
  return error instanceof CudaIpcError ? { code: error.code } : {};
}
