/**
 * When a bridge looks at its hub: when the hub tells that something changed there, when NATS does,
 * and now and then in any case.
 */
import { defaults } from "../base/limits.js";

/** At most this share of a CPU goes into looking, however many names there are. */
const SHARE_OF_CPU = 0.05;
/** The least pause if something is left to be done, or if the hub does not answer. */
const RETRY_MS = 1000;
/** The longest pause, also while nothing changes. */
const PAUSE_MS_MAX = 10_000;

export interface LookingParts {
  /** Returns false if something is left to be done. */
  look(): Promise<boolean>;
  /** Resolves with the hub's position. With `since` only when something has changed since then. */
  changed(since: number | undefined, signal: AbortSignal): Promise<number>;
}

/** Calls `look` again and again. One call at a time. */
export class Looking {
  readonly #parts: LookingParts;
  readonly #stop = new AbortController();
  #running: Promise<void> | undefined;
  #wanted: "soon" | "now" | undefined;
  #onWanted = () => {};

  constructor(parts: LookingParts) {
    this.#parts = parts;
  }

  /** Looks now, or right after the look that is under way. */
  now(): void {
    if (this.#stop.signal.aborted) return;
    this.#wanted = "now";
    this.#running ??= this.#run();
    this.#onWanted();
  }

  /** Looks after the pause that follows each look. */
  soon(): void {
    this.#wanted ??= "soon";
    this.#onWanted();
  }

  /** Waits for the look that is under way. */
  async close(): Promise<void> {
    this.#stop.abort();
    this.#onWanted();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { look, changed } = this.#parts;
    const { signal } = this.#stop;
    while (!signal.aborted) {
      this.#wanted = undefined;
      const start = process.cpuUsage();
      // Before the look, so that nothing is missed.
      const since = await changed(undefined, signal).catch(() => undefined);
      const isDone = await look();
      // WHY not the time: a look waits for NATS when names are new, and then others are new, too.
      const { user, system } = process.cpuUsage(start);
      const pauseMs = (user + system) / 1000 / SHARE_OF_CPU;
      const next = isDone ? since : undefined;
      const leastMs = next === undefined ? RETRY_MS : defaults.bridgeLookMs;
      const boundedMs = Math.min(Math.max(leastMs, pauseMs), PAUSE_MS_MAX);
      await this.#pause(boundedMs, () => this.#wanted === "now");
      if (next !== undefined) await this.#untilChanged(next);
    }
  }

  async #untilChanged(since: number): Promise<void> {
    const stop = new AbortController();
    try {
      // After an error, too: the next look meets the same error and reports it.
      const soon = () => {
        if (!stop.signal.aborted) this.soon();
      };
      this.#parts.changed(since, stop.signal).then(soon, soon);
      await this.#pause(PAUSE_MS_MAX, () => this.#wanted !== undefined);
    } finally {
      stop.abort();
    }
  }

  /** Ends early if `isOver` says so when something is wanted, and at the close. */
  async #pause(ms: number, isOver: () => boolean): Promise<void> {
    let timer: NodeJS.Timeout | undefined;
    await new Promise<void>((resolve) => {
      timer = setTimeout(resolve, ms);
      this.#onWanted = () => {
        if (isOver() || this.#stop.signal.aborted) resolve();
      };
      this.#onWanted();
    });
    clearTimeout(timer);
    this.#onWanted = () => {};
  }
}
