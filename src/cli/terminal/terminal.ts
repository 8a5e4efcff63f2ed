/**
 * The two streams a command prints to: results on standard output, all else on standard error.
 * A terminal gets colours unless NO_COLOR is set. Printed text may come from other processes, so
 * control characters are always escaped.
 */
import type { WriteStream } from "node:tty";
import { styleText } from "node:util";
import { isTerminalGone } from "./gone-terminal.js";
import { printable, printableStyled } from "./printable.js";

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
    const terminal = new Terminal(process.stdout, process.stderr);
    for (const stream of [process.stdout, process.stderr]) {
      stream.on("error", onStreamError);
    }
    return terminal;
  }

  /** Whether results go to a terminal, and not to a file or another program. */
  get isRead(): boolean {
    return isTerminal(this.#out);
  }

  /** Where a command can fill the screen. Undefined unless results go to a terminal that can. */
  get screenStream(): WriteStream | undefined {
    return isTerminal(this.#out) && process.env.TERM !== "dumb" ? this.#out : undefined;
  }

  /**
   * Where a progress bar goes. Undefined unless standard error is a terminal that can redraw lines.
   */
  get progressStream(): NodeJS.WritableStream | undefined {
    return isTerminal(this.#err) && process.env.TERM !== "dumb" ? this.#err : undefined;
  }

  /** Prints one line. A line break in the text is escaped. */
  line(text = ""): void {
    writeLine(this.#out, text);
  }

  /** Prints lines for a program as they are. Their writer has escaped what must be escaped. */
  text(lines: string): void {
    this.#out.write(lines);
  }

  json(value: unknown): void {
    const lines = JSON.stringify(value, jsonValue, 2).split("\n");
    this.#out.write(`${lines.map(printable).join("\n")}\n`);
  }

  /** Like `json`, on one line. */
  jsonLine(value: unknown): void {
    writeLine(this.#out, JSON.stringify(value, jsonValue));
  }

  /** Erases the last lines of a terminal. */
  eraseLines(count: number): void {
    this.#out.write(`\u001b[${count}A\u001b[J`);
  }

  /** Prints a line on standard error: progress or a failure. */
  note(text: string): void {
    writeLine(this.#err, text);
  }

  style(style: Style, text: string): string {
    return hasColours(this.#out) ? styleText(style, text) : text;
  }

  noteStyle(style: Style, text: string): string {
    return hasColours(this.#err) ? styleText(style, text) : text;
  }
}

/**
 * A closed pipe is no failure: `cuda-ipc ls | head -1` closes it early. Nor is a closed terminal:
 * its signal ends the command, which then cleans up.
 */
function onStreamError(error: NodeJS.ErrnoException): void {
  if (error.code === "EPIPE" || (error.code === "EIO" && isTerminalGone())) return;
  if (error.syscall !== "write" || error.code !== "ENOSPC") throw error;
  process.stderr.write(
    "error[DISK_FULL]: Cannot write the output: no space is left.\n  hint: Free some space.\n",
  );
  process.exit(1);
}

function isTerminal(stream: Stream): stream is WriteStream {
  return "isTTY" in stream && stream.isTTY === true;
}

function writeLine(stream: Stream, text: string): void {
  stream.write(`${hasColours(stream) ? printableStyled(text) : printable(text)}\n`);
}

function hasColours(stream: Stream): boolean {
  return isTerminal(stream) && stream.hasColors();
}

/** Turns big integers, NaN and infinities into strings, because JSON cannot hold them. */
function jsonValue(_key: string, value: unknown): unknown {
  if (typeof value === "bigint") return String(value);
  if (typeof value === "number" && !Number.isFinite(value)) return String(value);
  return value;
}
