/**
 * The two streams that a command prints to: results on standard output, everything else on standard error.
 * Colours only where a person sees them (a terminal, and NO_COLOR not set).
 */
import type { WriteStream } from "node:tty";
import { styleText } from "node:util";

export type Style = Parameters<typeof styleText>[0];

type Stream = NodeJS.WriteStream | NodeJS.WritableStream;

export class Terminal {
  readonly #out: Stream;
  readonly #err: Stream;

  constructor(out: Stream, err: Stream) {
    this.#out = out;
    this.#err = err;
  }

  static ofProcess(): Terminal {
    for (const stream of [process.stdout, process.stderr]) stream.on("error", onStreamError);
    return new Terminal(process.stdout, process.stderr);
  }

  /** Whether a person watches standard error, and so a progress bar makes sense. */
  get isWatched(): boolean {
    return isTerminal(this.#err);
  }

  line(text = ""): void {
    this.#out.write(`${text}\n`);
  }

  json(value: unknown): void {
    this.line(JSON.stringify(value, jsonValue, 2));
  }

  /** A line beside the results: what is going on, what went wrong. */
  note(text: string): void {
    this.#err.write(`${text}\n`);
  }

  style(style: Style, text: string): string {
    return hasColours(this.#out) ? styleText(style, text) : text;
  }

  noteStyle(style: Style, text: string): string {
    return hasColours(this.#err) ? styleText(style, text) : text;
  }
}

/** WHY a closed pipe is ignored: `cuda-ipc ls | head -1` closes it before everything was printed, which is nobody's mistake. */
function onStreamError(error: NodeJS.ErrnoException): void {
  if (error.code === "EPIPE") return;
  if (error.syscall !== "write" || error.code !== "ENOSPC") throw error;
  process.stderr.write("error[DISK_FULL]: Cannot write the output: no space is left.\n  hint: Free space there.\n");
  process.exit(1);
}

function isTerminal(stream: Stream): stream is WriteStream {
  return "isTTY" in stream && stream.isTTY === true;
}

function hasColours(stream: Stream): boolean {
  return isTerminal(stream) && stream.hasColors();
}

/** JSON has no integers over 2^53, no NaN and no infinities: they become text. */
function jsonValue(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  return value;
}
