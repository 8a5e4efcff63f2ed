/** Random numbers from a seed, so that a run can be repeated: `SEED=123 npm test -- property/hostile`. */

/** The seed of this run: `SEED`, else a new one. Tests print it. */
export function seedOfRun(): number {
  const given = process.env.SEED;
  return given === undefined || given === "" ? Math.floor(Math.random() * 2 ** 32) : Number(given) >>> 0;
}

/** Whether this is the long run: `NIGHTLY=1`. */
export const nightly = process.env.NIGHTLY === "1";

/** Mulberry32: 32 bits of state, good enough to choose among mutations. */
export class Random {
  #state: number;

  constructor(seed: number) {
    this.#state = seed >>> 0;
  }

  /** From 0, below 1. */
  next(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0;
    let mixed = this.#state;
    mixed = Math.imul(mixed ^ (mixed >>> 15), mixed | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  }

  /** An integer from 0, below `end`. */
  below(end: number): number {
    return Math.floor(this.next() * end);
  }

  chance(probability: number): boolean {
    return this.next() < probability;
  }

  pick<T>(items: readonly T[]): T {
    return items[this.below(items.length)] as T;
  }
}
