/**
 * Counts messages and bytes, and prints how fast they go: a line that is redrawn on a terminal,
 * else a line a second.
 */
import type { Terminal } from "../terminal/terminal.js";
import { durationWords, plural, sizeWords } from "../terminal/words.js";

const REDRAW_MS = 200;
const LINE_MS = 1000;

interface TrafficOptions {
  /** Print a line a second to standard output if standard error is no terminal. */
  readonly lines?: boolean;
  /** Print anything before the end. True by default. */
  readonly shown?: boolean;
  /** How many messages there will be, if known. */
  readonly total?: number | undefined;
  /** Lost messages in words, such as `3 missed`, or undefined if there are none. */
  readonly losses: () => string | undefined;
}

export class Traffic {
  readonly #terminal: Terminal;
  readonly #verb: string;
  readonly #options: TrafficOptions;
  readonly #startMs = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #messages = 0;
  #bytes = 0;
  /** The counts at the last redraw. */
  #shown = { atMs: this.#startMs, messages: 0, bytes: 0 };

  constructor(terminal: Terminal, verb: "Sent" | "Received", options: TrafficOptions) {
    this.#terminal = terminal;
    this.#verb = verb;
    this.#options = options;
    if (options.shown === false) return;
    const drawn = terminal.progressStream;
    if (drawn !== undefined)
      this.#timer = setInterval(() => drawn.write(`\r\u001b[K${this.#now()}`), REDRAW_MS);
    else if (options.lines) this.#timer = setInterval(() => this.#line(), LINE_MS);
    this.#timer?.unref();
  }

  get messages(): number {
    return this.#messages;
  }

  add(byteLength: number): void {
    this.#messages += 1;
    this.#bytes += byteLength;
  }

  /** Stops printing and erases the redrawn line. */
  stop(): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#terminal.progressStream?.write("\r\u001b[K");
  }

  /** `Sent 1000 messages, 4 KiB, in 12 ms, 83333 messages/s, 325 KiB/s; 3 dropped.` */
  summary(): string {
    const ms = performance.now() - this.#startMs;
    const speed = this.#messages > 1 ? `, ${speedWords(this.#messages, this.#bytes, ms)}` : "";
    return `${this.#words()} in ${durationWords(ms)}${speed}${this.#losses()}.`;
  }

  #line(): void {
    if (this.#messages > this.#shown.messages) this.#terminal.line(`${this.#now()}.`);
  }

  #now(): string {
    const { atMs, messages, bytes } = this.#shown;
    const nowMs = performance.now();
    this.#shown = { atMs: nowMs, messages: this.#messages, bytes: this.#bytes };
    const speed = speedWords(this.#messages - messages, this.#bytes - bytes, nowMs - atMs);
    return `${this.#words()}; ${speed}${this.#losses()}`;
  }

  #words(): string {
    const { total } = this.#options;
    const count =
      total === undefined
        ? plural(this.#messages, "message")
        : `${this.#messages} of ${plural(total, "message")}`;
    return `${this.#verb} ${count}, ${sizeWords(this.#bytes)}`;
  }

  #losses(): string {
    const losses = this.#options.losses();
    return losses === undefined ? "" : `; ${losses}`;
  }
}

function speedWords(messages: number, bytes: number, ms: number): string {
  return `${rateWords(messages, ms)} messages/s, ${sizeWords(Math.round((bytes * 1000) / ms))}/s`;
}

/** A count per second: `0.5`, `30`, `83333`. */
export function rateWords(count: number, ms: number): string {
  const rate = (count * 1000) / ms;
  return rate < 10 ? String(Number(rate.toFixed(1))) : String(Math.round(rate));
}
