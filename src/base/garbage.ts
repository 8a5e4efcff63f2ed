/**
 * Garbage collection on request. WHY: a program that waits allocates nothing. So what it has
 * dropped is never collected, and a wait for that never ends.
 */
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** A collection may take long, so only a wait that stalls asks for one, and ever more rarely. */
const FIRST_PAUSE_MS = 100;
const PAUSE_MS_MAX = 10_000;

let known: (() => void) | undefined;

/**
 * Collects all garbage. Finalizers run in later turns of the event loop. What only a finalizer lets
 * go is collected by the next call.
 */
export function collectGarbage(): void {
  known ??= globalThis.gc ?? collector();
  known();
}

function collector(): () => void {
  setFlagsFromString("--expose-gc");
  try {
    return runInNewContext("gc") as () => void;
  } finally {
    // The program's own contexts stay as they are.
    setFlagsFromString("--no-expose-gc");
  }
}

/** Collects garbage now and then while the program waits for what it may have dropped. */
export class StallWatch {
  readonly #stalledAt: () => number | undefined;
  #timer: NodeJS.Timeout | undefined;
  #pauseMs = FIRST_PAUSE_MS;

  /**
   * @param stalledAt undefined if no wait stalls; else a number that changes with each progress
   */
  constructor(stalledAt: () => number | undefined) {
    this.#stalledAt = stalledAt;
  }

  /** Call it when a wait begins. */
  begin(): void {
    if (this.#timer === undefined) this.#lookLater(this.#stalledAt());
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #lookLater(before: number | undefined): void {
    if (before === undefined) return;
    this.#timer = setTimeout(() => this.#look(before), this.#pauseMs);
    this.#timer.unref();
  }

  #look(before: number): void {
    this.#timer = undefined;
    const at = this.#stalledAt();
    if (at === before) {
      collectGarbage();
      this.#pauseMs = Math.min(2 * this.#pauseMs, PAUSE_MS_MAX);
    } else this.#pauseMs = FIRST_PAUSE_MS;
    this.#lookLater(at);
  }
}
