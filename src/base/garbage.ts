/**
 * Garbage collection on request. WHY: a program that waits allocates nothing. So what it has
 * dropped is never collected, and a wait for that never ends.
 *
 * A collection stops the program for 0.1 to 0.7 ms per MiB of its heap (measured). So it is asked
 * for only if a wait stalls, and ever more rarely while it finds nothing that was dropped.
 */
import { getHeapStatistics, setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

const FIRST_PAUSE_MS = 100;
const PAUSE_MS_MAX = 10_000;
/** A stall lasts at least ten times as long as the collection. */
const PAUSE_MS_PER_MIB = 5;
const MIB = 2 ** 20;

let known: (() => void) | undefined;
/** All waits of the thread share them. */
let pauseMs = 0;
let lastMs = Number.NEGATIVE_INFINITY;

/**
 * Collects all garbage. Finalizers run in later turns of the event loop. What only a finalizer lets
 * go is collected by the next call.
 */
export function collectGarbage(): void {
  known ??= collector();
  known();
  lastMs = performance.now();
  pauseMs = Math.min(Math.max(FIRST_PAUSE_MS, 2 * pauseMs), PAUSE_MS_MAX);
}

/** The program drops what others wait for, so collections are of use. */
export function garbageWasFound(): void {
  pauseMs = 0;
}

function restMs(): number {
  return lastMs + pauseMs - performance.now();
}

function collector(): () => void {
  if (typeof globalThis.gc === "function") return globalThis.gc;
  try {
    setFlagsFromString("--expose-gc");
    return runInNewContext("gc") as () => void;
  } catch {
    // Without it the wait ends when the program's own work has caused a collection.
    return () => {};
  } finally {
    // The program's own contexts stay as they are.
    setFlagsFromString("--no-expose-gc");
  }
}

/** Collects garbage now and then while the program waits for what it may have dropped. */
export class StallWatch {
  readonly #stalledAt: () => number | undefined;
  #timer: NodeJS.Timeout | undefined;

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
    const ofHeap = (getHeapStatistics().used_heap_size / MIB) * PAUSE_MS_PER_MIB;
    const delayMs = Math.max(FIRST_PAUSE_MS, Math.min(ofHeap, PAUSE_MS_MAX), restMs());
    this.#timer = setTimeout(() => this.#look(before), delayMs);
    this.#timer.unref();
  }

  #look(before: number): void {
    this.#timer = undefined;
    const at = this.#stalledAt();
    if (at === before && restMs() <= 0) collectGarbage();
    this.#lookLater(at);
  }
}
