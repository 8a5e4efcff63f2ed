/** `top` on a terminal: looks at the hub at an interval, and draws after each look and each key. */
import { setTimeout as sleep } from "node:timers/promises";
import type { WriteStream } from "node:tty";
import { CudaIpcError } from "../../base/errors.js";
import type { HubWatch } from "../../watch/hub-watch.js";
import { ratesBetween } from "../../watch/rates.js";
import type { CommandContext } from "../command-context.js";
import { FullScreen } from "../terminal/full-screen.js";
import { screenLines } from "./top-screen.js";
import { TopState } from "./top-state.js";
import { type Look, lookAt } from "./view.js";

interface LiveOptions {
  /** In milliseconds. */
  readonly interval: number;
  readonly filter?: string;
}

/** A look waits at least so long for the hub. Then the screen says that it does not answer. */
const ANSWER_MS_MIN = 1000;

export class LiveTop {
  readonly #watch: HubWatch;
  readonly #context: CommandContext;
  readonly #intervalMs: number;
  readonly #state: TopState;
  readonly #screen: FullScreen;
  /** Aborted by `q`, and by the signals that end the command. */
  readonly #quit = new AbortController();
  readonly #end: AbortSignal;
  #look: Look | undefined;
  #looking: Promise<void> = Promise.resolve();
  #suspended = false;

  constructor(
    watch: HubWatch,
    out: WriteStream,
    context: CommandContext,
    { interval, filter }: LiveOptions,
  ) {
    this.#watch = watch;
    this.#context = context;
    this.#intervalMs = interval;
    this.#state = new TopState(filter);
    this.#end = AbortSignal.any([context.signal, this.#quit.signal]);
    this.#screen = new FullScreen(context.terminal, out, {
      onKey: (key) => this.#press(key),
      onRedraw: () => {
        this.#suspended = false;
        this.#draw();
      },
      onSuspend: async () => {
        this.#suspended = true;
        await this.#looking;
        await this.#watch.leave();
      },
    });
  }

  /** Resolves when the user quits. @throws ABORTED by a signal */
  async run(): Promise<void> {
    this.#draw();
    while (!this.#end.aborted) {
      const startMs = performance.now();
      if (!this.#suspended && !(this.#state.paused && this.#look !== undefined)) {
        this.#looking = this.#lookOnce();
        await this.#looking;
      }
      this.#draw();
      const restMs = Math.max(0, this.#intervalMs - (performance.now() - startMs));
      await sleep(restMs, undefined, { signal: this.#end }).catch(() => {});
    }
    this.#context.signal.throwIfAborted();
  }

  close(): void {
    this.#screen.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #lookOnce(): Promise<void> {
    const timeoutMs = Math.max(ANSWER_MS_MIN, this.#intervalMs);
    try {
      const snapshot = await this.#watch.snapshot({ timeoutMs, signal: this.#end });
      const before = this.#look?.snapshot;
      const rates = before === undefined ? undefined : ratesBetween(before, snapshot);
      this.#look = lookAt(snapshot, rates);
    } catch (error) {
      if (!this.#end.aborted || !(error instanceof CudaIpcError)) throw error;
    }
  }

  #draw(): void {
    if (this.#suspended) return;
    const nowMs = this.#state.paused ? (this.#look?.snapshot.atMs ?? Date.now()) : Date.now();
    this.#screen.draw(screenLines(this.#look, this.#state, this.#screen, nowMs));
  }

  #press(key: string): void {
    const request = this.#state.press(key);
    if (request === "quit") this.#quit.abort();
    else if (request === "interrupt") process.kill(process.pid, "SIGINT");
    else if (request === "suspend") void this.#screen.suspend();
    else this.#draw();
  }
}
