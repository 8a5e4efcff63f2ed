/**
 * One line of a log, as text or JSON. What a client wrote cannot begin another line, end a JSON
 * string or control a terminal: such characters are escaped, and long text is cut off.
 */
import { type LogEvent, type LogFields, type LogFormat, logEvents } from "./log-events.js";
import { printable } from "./printable.js";

/**
 * The most characters of one text. WHY: a pipe takes up to 4096 bytes as a whole, so lines of
 * several processes do not mix. A message fits even if each of its characters is escaped.
 */
const TEXT_MAX = 500;

export interface LogLine {
  readonly time: Date;
  readonly event: LogEvent;
  readonly message: string;
  readonly fields: LogFields;
}

/** The line, with its line break. */
export function logLine(format: LogFormat, line: LogLine): string {
  return `${format === "json" ? jsonLine(line) : textLine(line)}\n`;
}

function textLine({ time, message }: LogLine): string {
  return `${time.toISOString()}  ${printable(cut(message))}`;
}

function jsonLine({ time, event, message, fields }: LogLine): string {
  const { level } = logEvents[event];
  const line = { time: time.toISOString(), level, event, message: cut(message), ...fields };
  // JSON leaves DEL, C1 and line separators as they are.
  return printable(JSON.stringify(line, (_key, value) => (isText(value) ? cut(value) : value)));
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function cut(text: string): string {
  return text.length > TEXT_MAX ? `${text.slice(0, TEXT_MAX)}...` : text;
}
