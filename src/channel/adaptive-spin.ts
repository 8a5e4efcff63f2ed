/**
 * How long to ask before going to sleep: as long as the caller allows where that has helped of late, and less and less where it has not,
 * so that a busy channel is quick and a quiet one costs nothing.
 */

/** What is left of the limit at least, so that a channel that becomes busy again is noticed. */
const LEAST = 1 / 64;
/** Whatever is asked for: the event loop stands still meanwhile. */
const SPIN_MS_MAX = 1000;

export class AdaptiveSpin {
  readonly #limitMs: number;
  #spinMs: number;

  /** @param limitMs 0 never asks twice */
  constructor(limitMs: number) {
    this.#limitMs = Math.min(limitMs, SPIN_MS_MAX);
    this.#spinMs = this.#limitMs;
  }

  /** Asks until there is an answer, but not longer than the caller's limit; undefined where there was none. The event loop stands still meanwhile. */
  until<T>(ask: () => T | undefined, limitMs = this.#spinMs): T | undefined {
    if (this.#limitMs === 0) return undefined;
    const endMs = performance.now() + Math.min(this.#spinMs, limitMs);
    do {
      const found = ask();
      if (found !== undefined) {
        this.#spinMs = Math.min(this.#limitMs, this.#spinMs * 2);
        return found;
      }
    } while (performance.now() < endMs);
    this.#spinMs = Math.max(this.#limitMs * LEAST, this.#spinMs / 2);
    return undefined;
  }
}
