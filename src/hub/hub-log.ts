/** The hub's log, where lines that repeat are counted. */
import { CudaIpcError, messageOf } from "../base/errors.js";
import {
  type Log,
  type LogEvent,
  type LogFields,
  type LogSettings,
  logEvents,
} from "../base/log-events.js";
import { kindOfMessage, RepeatedLines, restOf } from "../base/repeated-lines.js";
import { logTo } from "../os/log-output.js";
import { isStartedByKeeper } from "../os/received-fds.js";

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

/**
 * Writes the first few lines of a kind, and then one line for all others of an interval. Lines of
 * level `debug` are all written: whoever asks for them wants each.
 */
export class LimitedLog {
  readonly #write: Log;
  readonly #lines: RepeatedLines<Line>;

  constructor(write: Log) {
    this.#write = write;
    this.#lines = new RepeatedLines({
      kindOf,
      write: ({ event, message, fields }) => write(event, message, fields),
      writeRest: (count, { event, message, fields }) =>
        write(event, restOf(count, message), { ...fields, count }),
    });
  }

  readonly log: Log = (event, message, fields) => {
    if (logEvents[event].level === "debug") this.#write(event, message, fields);
    else this.#lines.add({ event, message, fields });
  };

  /** Writes how many lines were left out, and starts counting again. */
  flush(): void {
    this.#lines.flush();
  }
}

/** It has the uid, because each user gets its own lines. */
function kindOf({ message, fields }: Line): string {
  return `${fields?.uid ?? ""} ${kindOfMessage(message)}`;
}

export function describeError(error: unknown): string {
  if (error instanceof CudaIpcError) return `${error.code}: ${error.message}`;
  return messageOf(error);
}

/** The field `code` of a line about this error. */
export function codeOf(error: unknown): Pick<LogFields, "code"> {
  return error instanceof CudaIpcError ? { code: error.code } : {};
}
