/**
 * Compares two ways of doing one thing that were measured in the same rounds. What slows a machine
 * down for longer than a round slows both, so their ratio in each round says more than their means.
 */
import type { Row } from "./measure.js";
import { Random } from "./random.js";

/** How much more than the other way, in percent. */
export interface Excess {
  readonly median: number;
  /** The interval that has the true median with a confidence of 95 %. */
  readonly low: number;
  readonly high: number;
}

const RESAMPLES = 4000;
const CONFIDENCE = 0.95;

/** @param base and other, one figure of each round. The interval is a bootstrap of the median. */
export function excessOf(base: readonly number[], other: readonly number[], seed = 1): Excess {
  const percent = other.map((figure, round) => (figure / (base[round] ?? Number.NaN) - 1) * 100);
  const random = new Random(seed);
  const medians = Float64Array.from({ length: RESAMPLES }, () =>
    medianOf(percent.map(() => random.pick(percent))),
  ).sort();
  const at = (share: number) => medians[Math.floor(share * (RESAMPLES - 1))] ?? Number.NaN;
  const [low, high] = [at((1 - CONFIDENCE) / 2), at((1 + CONFIDENCE) / 2)];
  return { median: medianOf(percent), low, high };
}

/** A goal is met if the whole interval is below it. */
export function excessRow(what: string, { median, low, high }: Excess, maxPercent: number): Row {
  return {
    what: `${what} (95 %: ${low.toFixed(2)} to ${high.toFixed(2)} %)`,
    value: median,
    unit: "%",
    goal: `all of it under ${maxPercent} %`,
    met: high < maxPercent,
  };
}

export function medianOf(figures: readonly number[]): number {
  const sorted = figures.toSorted((one, other) => one - other);
  const upper = sorted[sorted.length >> 1] ?? Number.NaN;
  return sorted.length % 2 === 1 ? upper : (upper + (sorted[(sorted.length >> 1) - 1] ?? 0)) / 2;
}
