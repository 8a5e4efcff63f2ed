/**
 * Spins before a sleep, for as long as spinning has helped of late. A busy channel then answers in
 * microseconds, and a quiet one costs no CPU.
 */

/** The share of the limit that always stays, so that a channel that gets busy again is noticed. */
const LEAST = 1 / 64;
/** The event loop stands still during a spin. */
const SPIN_MS_MAX = 1000;

export class AdaptiveSpin {
  readonly #limitMs: number;
  #spinMs: number;

  /** @param limitMs the longest spin; 0 never spins */
  constructor(limitMs: number) {
    this.#limitMs = Math.min(limitMs, SPIN_MS_MAX);
    this.#spinMs = this.#limitMs;
  }

  /**
   * Calls `ask` until it returns something, for at most `limitMs`. Returns undefined if it never
   * did. The next spin is twice as long after a success and half as long after a failure.
   */
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
