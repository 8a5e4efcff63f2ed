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

/** The clock, heap and timers of a rhythm. Tests pass their own. */
export interface GarbagePorts {
  /** Monotonic. */
  nowMs(): number;
  heapBytes(): number;
  collect(): void;
  /** Makes a call after a time, and returns what prevents it. */
  later(call: () => void, delayMs: number): () => void;
}

/** When garbage is collected on request. */
export class GarbageRhythm {
  readonly ports: GarbagePorts;
  #pauseMs = 0;
  #lastMs = Number.NEGATIVE_INFINITY;

  constructor(ports: GarbagePorts) {
    this.ports = ports;
  }

  collect(): void {
    this.ports.collect();
    this.#lastMs = this.ports.nowMs();
    this.#pauseMs = Math.min(Math.max(FIRST_PAUSE_MS, 2 * this.#pauseMs), PAUSE_MS_MAX);
  }

  found(): void {
    this.#pauseMs = 0;
  }

  /** How long the pause after the last collection still lasts. */
  get restMs(): number {
    return this.#lastMs + this.#pauseMs - this.ports.nowMs();
  }

  /** How long a wait stalls before the next collection. */
  get stallMs(): number {
    const ofHeap = (this.ports.heapBytes() / MIB) * PAUSE_MS_PER_MIB;
    return Math.max(FIRST_PAUSE_MS, Math.min(ofHeap, PAUSE_MS_MAX), this.restMs);
  }
}

let known: (() => void) | undefined;
/** All waits of the thread share it. */
const ofThread = new GarbageRhythm({
  nowMs: () => performance.now(),
  heapBytes: () => getHeapStatistics().used_heap_size,
  collect: () => {
    known ??= collector();
    known();
  },
  later: (call, delayMs) => {
    const timer = setTimeout(call, delayMs).unref();
    return () => clearTimeout(timer);
  },
});

/**
 * Collects all garbage. Finalizers run in later turns of the event loop. What only a finalizer lets
 * go is collected by the next call.
 */
export function collectGarbage(): void {
  ofThread.collect();
}

/** The program drops what others wait for, so collections are of use. */
export function garbageWasFound(): void {
  ofThread.found();
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
  readonly #rhythm: GarbageRhythm;
  /** Prevents the next look. */
  #cancel: (() => void) | undefined;

  /**
   * @param stalledAt undefined if no wait stalls; else a number that changes with each progress
   * @param rhythm another than the thread's is for tests
   */
  constructor(stalledAt: () => number | undefined, rhythm = ofThread) {
    this.#stalledAt = stalledAt;
    this.#rhythm = rhythm;
  }

  /** Call it when a wait begins. */
  begin(): void {
    if (this.#cancel === undefined) this.#lookLater(this.#stalledAt());
  }

  close(): void {
    this.#cancel?.();
  }

  #lookLater(before: number | undefined): void {
    if (before === undefined) return;
    const { ports, stallMs } = this.#rhythm;
    this.#cancel = ports.later(() => this.#look(before), stallMs);
  }

  #look(before: number): void {
    this.#cancel = undefined;
    const at = this.#stalledAt();
    if (at === before && this.#rhythm.restMs <= 0) this.#rhythm.collect();
    this.#lookLater(at);
  }
}
