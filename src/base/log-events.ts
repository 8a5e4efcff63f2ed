/**
 * Everything that a hub and its keeper log: stable names for programs, levels for filters. At
 * `warn` an operator sees what needs a person. What a client is told itself is at most `info`.
 */

/** From the most to the least severe. */
export const logLevels = ["error", "warn", "info", "debug"] as const;
export type LogLevel = (typeof logLevels)[number];

export const logFormats = ["text", "json"] as const;
export type LogFormat = (typeof logFormats)[number];

export interface LogSettings {
  /** Less severe lines are left out. */
  readonly level: LogLevel;
  readonly format: LogFormat;
}

export const defaultLogSettings: LogSettings = { level: "info", format: "text" };

interface LogEventFacts {
  readonly level: LogLevel;
  readonly meaning: string;
}

const events = {
  "hub-not-started": { level: "error", meaning: "A hub could not start." },
  "keeper-not-started": {
    level: "error",
    meaning: "The hub has no keeper: objects without holders would be lost with the hub.",
  },
  "gate-not-started": {
    level: "error",
    meaning: "The process that receives descriptors could not start. Nobody can create objects.",
  },
  "words-not-started": {
    level: "error",
    meaning:
      "The process that ends timelines and channels could not start. The hub does it for now, " +
      "and a hostile user can make it wait.",
  },
  "client-not-accepted": {
    level: "error",
    meaning: "The hub could not accept a client, for example because it has no file left to open.",
  },
  "object-lost": {
    level: "error",
    meaning: "A pinned object is gone, because hub and keeper ended together.",
  },
  "files-missing": {
    level: "error",
    meaning: "A file beside the socket is missing or taken. The message says what to do.",
  },
  "journal-not-written": {
    level: "error",
    meaning: "The journal could not be written, for example because the disk is full.",
  },
  "internal-error": {
    level: "error",
    meaning: "A step of the hub failed, and the hub goes on. Please report it.",
  },
  "hub-in-service": {
    level: "warn",
    meaning: "The hub was started by a program of a systemd service, and ends with it.",
  },
  "signal-not-followed": {
    level: "warn",
    meaning: "A signal did not end the hub that a client started, because others use it.",
  },
  "hub-crashed": {
    level: "warn",
    meaning: "The hub ended without being told to. Its keeper starts the next one.",
  },
  "hub-not-told": { level: "warn", meaning: "The service manager cannot be told the hub's state." },
  "keeper-ended": {
    level: "warn",
    meaning: "The keeper ended without being told to. Another one replaces it.",
  },
  "keeper-stuck": { level: "warn", meaning: "The keeper took nothing for a while and is killed." },
  "gate-failed": {
    level: "warn",
    meaning: "The process that receives descriptors failed. Another one replaces it.",
  },
  "words-failed": {
    level: "warn",
    meaning: "The process that ends timelines and channels failed. Another one replaces it.",
  },
  "memory-waits": {
    level: "warn",
    meaning: "A user's memory makes writes of the hub wait. Only that user's ends are late.",
  },
  "metrics-open": { level: "warn", meaning: "Other machines can read the metrics of the hub." },
  "metrics-ended": {
    level: "warn",
    meaning: "The process that serves metrics ended. Another one replaces it.",
  },
  "object-not-kept": {
    level: "warn",
    meaning: "The next hub would not get this memory, unless a holder brings it back.",
  },
  "journal-damaged": { level: "warn", meaning: "Lines of the journal are damaged or missing." },
  "file-remade": {
    level: "warn",
    meaning: "Something removed a file beside the socket, and the hub made it again.",
  },
  "files-not-watched": {
    level: "warn",
    meaning: "The hub has no inotify, so it looks at its files from time to time.",
  },
  "bells-without-aio": {
    level: "warn",
    meaning: "The hub wakes processes without asynchronous I/O. The message says why.",
  },
  "client-hung-up": {
    level: "warn",
    meaning: "The hub hung up on a client, which broke the protocol or read no replies.",
  },
  "user-too-fast": {
    level: "warn",
    meaning: "A user connects faster than the hub admits clients.",
  },
  "lines-dropped": {
    level: "warn",
    meaning: "Lines of this log were dropped, because nothing read it or the disk was full.",
  },
  "hub-started": { level: "info", meaning: "A hub listens, or says how it is set up." },
  "metrics-started": {
    level: "info",
    meaning: "A process serves metrics at the URL that it names.",
  },
  "hub-restarts": { level: "info", meaning: "The hub was told to make way for the next one." },
  "hub-inherited": { level: "info", meaning: "The hub goes on with what an earlier one left." },
  "hub-ended": { level: "info", meaning: "The hub ends: stopped, interrupted or idle." },
  "journal-not-used": {
    level: "info",
    meaning: "The journal is of another boot, so nothing in it exists any more.",
  },
  "files-restored": { level: "info", meaning: "All files beside the socket are there again." },
  "client-refused": { level: "info", meaning: "A client was not admitted. It was told why." },
  "session-disconnected": {
    level: "info",
    meaning: "Somebody disconnected a client. The message says who.",
  },
  "descriptors-refused": {
    level: "info",
    meaning: "Clients sent descriptors that no hub takes.",
  },
  "memory-not-written": {
    level: "info",
    meaning: "Memory of a client cannot be written, so its end cannot be marked there.",
  },
  "client-connected": { level: "debug", meaning: "A client was admitted." },
  "client-disconnected": {
    level: "debug",
    meaning: "A client is gone, and everything that it held is released.",
  },
  "session-began": { level: "debug", meaning: "A client holds its first object." },
  "session-ended": { level: "debug", meaning: "A client holds nothing any more." },
  "object-created": { level: "debug", meaning: "A client registered an object." },
  "object-published": { level: "debug", meaning: "An object can be opened." },
  "object-removed": { level: "debug", meaning: "The name of an object was removed." },
  "object-ended": { level: "debug", meaning: "The hub let go of an object's memory." },
  "lease-granted": { level: "debug", meaning: "A client holds an object." },
  "lease-released": { level: "debug", meaning: "A client no longer holds an object." },
} as const satisfies Record<string, LogEventFacts>;

export type LogEvent = keyof typeof events;

export const logEvents: Readonly<Record<LogEvent, LogEventFacts>> = events;

/** Details of a line for programs to read. The line's message has them in words. */
export interface LogFields {
  /** The client, or the hub or keeper that the line is about. */
  readonly pid?: number | undefined;
  readonly uid?: number | undefined;
  readonly session?: number | undefined;
  readonly object?: number | undefined;
  readonly lease?: number | undefined;
  /** The name of the object. */
  readonly name?: string | undefined;
  readonly bytes?: number | undefined;
  readonly path?: string | undefined;
  /** The code of the error that the line reports. */
  readonly code?: string | undefined;
  /** How many lines or things this line stands for. */
  readonly count?: number | undefined;
}

/** Writes a line of the log. */
export type Log = (event: LogEvent, message: string, fields?: LogFields) => void;

export const noLog: Log = () => {};

/** Whether a log with this level has lines of that one. */
export function takesLevel(level: LogLevel, ofLine: LogLevel): boolean {
  return logLevels.indexOf(ofLine) <= logLevels.indexOf(level);
}
