/** So many messages a second, at most. */
import { setTimeout as sleep } from "node:timers/promises";

/** What was lost to readers or input is not made up for beyond this. */
const CATCH_UP_MS = 100;

export class Pace {
  readonly #intervalMs: number;
  #dueMs = performance.now();

  /** @param rate messages a second; undefined for as fast as it goes */
  constructor(rate: number | undefined) {
    this.#intervalMs = rate === undefined ? 0 : 1000 / rate;
  }

  /** Resolves when the next message is due. */
  async next(signal: AbortSignal): Promise<void> {
    if (this.#intervalMs === 0) return;
    const waitMs = this.#dueMs - performance.now();
    // WHY not less: timers know no less, and the next ones wait the longer for it.
    if (waitMs >= 1) await sleep(waitMs, undefined, { signal }).catch(() => signal.throwIfAborted());
    this.#dueMs = Math.max(this.#dueMs, performance.now() - CATCH_UP_MS) + this.#intervalMs;
  }
}
