/** Pauses between attempts. */
import type { Deadline } from "./deadline.js";

const FIRST_MS = 1;
const LAST_MS = 1000;

/**
 * Pauses that double from a millisecond up to a limit. A random part is cut from each, so processes
 * that failed together do not retry together.
 */
export class GrowingPause {
  readonly #lastMs: number;
  #wholeMs = FIRST_MS;

  constructor(lastMs = LAST_MS) {
    this.#lastMs = lastMs;
  }

  /** How long to wait this time, in milliseconds. */
  nextMs(): number {
    const wholeMs = this.#wholeMs;
    this.#wholeMs = Math.min(2 * wholeMs, this.#lastMs);
    return wholeMs * (0.5 + Math.random() / 2);
  }

  /** Begins again with the shortest pause, after a success. */
  reset(): void {
    this.#wholeMs = FIRST_MS;
  }
}

const PAUSE_MS = 10;

/**
 * Pauses before the next look at something that another process is about to do.
 * @throws TIMEOUT, ABORTED
 */
export async function retryPause(deadline: Deadline, pauseMs = PAUSE_MS): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const pause = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, pauseMs);
  });
  await deadline.race(pause, () => clearTimeout(timer));
}
