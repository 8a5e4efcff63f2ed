/**
 * The two streams that a command prints to: results on standard output, everything else on standard error.
 * Colours only where a person sees them (a terminal, and NO_COLOR not set). What is printed may hold text of others: control
 * characters never get through.
 */
import type { WriteStream } from "node:tty";
import { styleText } from "node:util";
import { printable, printableStyled } from "./printable.js";

export type Style = Parameters<typeof styleText>[0];

type Stream = NodeJS.WriteStream | NodeJS.WritableStream;

export class Terminal {
  readonly #out: Stream;
  readonly #err: Stream;
  #dropsUnwritable = false;

  constructor(out: Stream, err: Stream) {
    this.#out = out;
    this.#err = err;
  }

  static ofProcess(): Terminal {
    const terminal = new Terminal(process.stdout, process.stderr);
    for (const stream of [process.stdout, process.stderr]) {
      stream.on("error", (error) => {
        if (!terminal.#dropsUnwritable) onStreamError(error);
      });
    }
    return terminal;
  }

  /** Whether results go to a person, and not to a file or another program. */
  get isRead(): boolean {
    return isTerminal(this.#out);
  }

  /** Where a person watches a progress bar; undefined where standard error is no terminal, or one that cannot redraw a line. */
  get progressStream(): NodeJS.WritableStream | undefined {
    return isTerminal(this.#err) && process.env.TERM !== "dumb" ? this.#err : undefined;
  }

  /** From here on what cannot be written is dropped, and no reason to end: for what has more to do than to print. */
  dropUnwritable(): void {
    this.#dropsUnwritable = true;
  }

  /** One line: a line break in it is escaped as any control character. */
  line(text = ""): void {
    writeLine(this.#out, text);
  }

  json(value: unknown): void {
    const lines = JSON.stringify(value, jsonValue, 2).split("\n");
    this.#out.write(`${lines.map(printable).join("\n")}\n`);
  }

  /** As `json`, in one line. */
  jsonLine(value: unknown): void {
    writeLine(this.#out, JSON.stringify(value, jsonValue));
  }

  /** Takes back the last lines, where a person reads: others take their place. */
  eraseLines(count: number): void {
    this.#out.write(`\u001b[${count}A\u001b[J`);
  }

  /** A line beside the results: what is going on, what went wrong. */
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

function writeLine(stream: Stream, text: string): void {
  stream.write(`${hasColours(stream) ? printableStyled(text) : printable(text)}\n`);
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
