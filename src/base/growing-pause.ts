/**
 * The pauses between attempts: they double from a millisecond to a limit, and each is cut by a random part, so that those who failed
 * together do not all try together.
 */

const FIRST_MS = 1;
const LAST_MS = 1000;

export class GrowingPause {
  readonly #lastMs: number;
  #wholeMs = FIRST_MS;

  constructor(lastMs = LAST_MS) {
    this.#lastMs = lastMs;
  }

  /** How long to wait this time. */
  nextMs(): number {
    const wholeMs = this.#wholeMs;
    this.#wholeMs = Math.min(2 * wholeMs, this.#lastMs);
    return wholeMs * (0.5 + Math.random() / 2);
  }

  /** Begins anew, after a success. */
  reset(): void {
    this.#wholeMs = FIRST_MS;
  }
}
