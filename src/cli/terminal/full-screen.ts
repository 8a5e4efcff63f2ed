/**
 * A terminal that a command fills and redraws: the alternate screen, keys, resizing, and Ctrl-Z.
 * However the command ends, the terminal is as before.
 */
import { writeSync } from "node:fs";
import { emitKeypressEvents, type Key } from "node:readline";
import type { ReadStream, WriteStream } from "node:tty";
import { printable } from "./printable.js";
import type { Style, Terminal } from "./terminal.js";
import { cutToWidth, textWidth } from "./text-width.js";

/** A part of a line with one style. */
export interface Span {
  readonly text: string;
  readonly style?: Style | undefined;
}

export type Line = readonly Span[];

export interface ScreenEvents {
  /** `up`, `return`, `escape`, or the character. With Ctrl: `ctrl-c`. */
  onKey(key: string): void;
  /** The size has changed, or the screen was lost. */
  onRedraw(): void;
  /** The process is about to stop. Give back what others may need. */
  onSuspend(): Promise<void>;
}

/** The alternate screen, without a cursor and without wrapping of long lines. */
const ENTER = "\u001b[?1049h\u001b[?25l\u001b[?7l";
const LEAVE = "\u001b[?7h\u001b[?25h\u001b[?1049l";
const HOME = "\u001b[H";
const TO_LINE_END = "\u001b[K";
const TO_SCREEN_END = "\u001b[J";
/** How long a stop may take to begin. Nothing stops a process without a shell. */
const STOP_MS = 50;
const ESCAPE_MS = 50;
const STDOUT = 1;
/** Also if NO_COLOR is set: it is no colour, and shows where the cursor is. */
const INVERSE = ["\u001b[7m", "\u001b[27m"] as const;

export class FullScreen {
  readonly #terminal: Terminal;
  readonly #out: WriteStream;
  readonly #keys: ReadStream | undefined;
  readonly #events: ScreenEvents;
  #entered = false;
  #open = true;

  /** @param out the terminal's own stream */
  constructor(terminal: Terminal, out: WriteStream, events: ScreenEvents) {
    this.#terminal = terminal;
    this.#out = out;
    this.#events = events;
    const { stdin } = process;
    this.#keys = stdin.isTTY ? stdin : undefined;
    if (this.#keys !== undefined) {
      emitKeypressEvents(this.#keys, { escapeCodeTimeout: ESCAPE_MS } as never);
      this.#keys.on("keypress", this.#onKeypress);
      this.#keys.on("error", this.#onKeysEnd);
    }
    out.on("resize", this.#onResize);
    process.on("SIGTSTP", this.#onStop);
    process.on("SIGCONT", this.#onContinue);
    process.on("exit", this.#onExit);
    this.#enter();
  }

  get columns(): number {
    return Math.max(1, this.#out.columns);
  }

  get rows(): number {
    return Math.max(1, this.#out.rows);
  }

  /** Whether somebody can press keys. */
  get hasKeys(): boolean {
    return this.#keys !== undefined;
  }

  /** Shows these lines from the top. Does nothing while the terminal is too slow for the last. */
  draw(lines: readonly Line[]): void {
    if (!this.#entered || this.#out.writableLength > 0) return;
    const shown = lines.slice(0, this.rows).map((line) => `${this.#text(line)}${TO_LINE_END}`);
    this.#out.write(`${HOME}${shown.join("\r\n")}${TO_SCREEN_END}`);
  }

  /** Stops this process as Ctrl-Z does, and goes on when it is continued. */
  async suspend(): Promise<void> {
    this.#leave();
    await this.#events.onSuspend();
    if (!this.#open) return;
    // Without a listener the kernel stops the process, if a shell could continue it.
    process.removeListener("SIGTSTP", this.#onStop);
    process.kill(process.pid, "SIGTSTP");
    await new Promise((resolve) => setTimeout(resolve, STOP_MS));
    if (!this.#open) return;
    process.on("SIGTSTP", this.#onStop);
    this.#onContinue();
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#leave();
    this.#out.removeListener("resize", this.#onResize);
    this.#keys?.removeListener("keypress", this.#onKeypress);
    this.#keys?.removeListener("error", this.#onKeysEnd);
    process.removeListener("SIGTSTP", this.#onStop);
    process.removeListener("SIGCONT", this.#onContinue);
    process.removeListener("exit", this.#onExit);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  readonly #onKeypress = (character: string | undefined, { name, ctrl, shift }: Key): void => {
    if (!this.#entered) return;
    if (shift && name === "tab") this.#events.onKey("shift-tab");
    else if (ctrl && name !== undefined) this.#events.onKey(`ctrl-${name}`);
    else if (character !== undefined && [...character].length === 1 && character >= " ")
      this.#events.onKey(character === "\u007f" ? "backspace" : character);
    else if (name !== undefined) this.#events.onKey(name);
  };
  /** The terminal has gone. A signal follows, which ends the command. */
  readonly #onKeysEnd = (): void => {};
  readonly #onResize = (): void => this.#events.onRedraw();
  readonly #onStop = (): void => void this.suspend();
  readonly #onContinue = (): void => {
    if (!this.#open) return;
    this.#enter();
    this.#events.onRedraw();
  };
  /** WHY written at once: at the exit of the process nothing else is written any more. */
  readonly #onExit = (): void => {
    if (!this.#entered) return;
    this.#keys?.setRawMode(false);
    writeSync(STDOUT, LEAVE);
  };

  /** Also if it has entered: a shell may have changed the terminal of a stopped process. */
  #enter(): void {
    this.#entered = true;
    this.#keys?.setRawMode(false);
    this.#keys?.setRawMode(true);
    this.#keys?.resume();
    this.#out.write(ENTER);
  }

  #leave(): void {
    if (!this.#entered) return;
    this.#entered = false;
    this.#keys?.setRawMode(false);
    this.#keys?.pause();
    this.#out.write(LEAVE);
  }

  #text(line: Line): string {
    let left = this.columns;
    let text = "";
    for (const span of line) {
      const cut = cutToWidth(printable(span.text), left);
      left -= textWidth(cut);
      text += this.#styled(cut, span.style);
    }
    return text;
  }

  #styled(text: string, style: Style | undefined): string {
    if (style === "inverse") return `${INVERSE[0]}${text}${INVERSE[1]}`;
    return style === undefined ? text : this.#terminal.style(style, text);
  }
}
