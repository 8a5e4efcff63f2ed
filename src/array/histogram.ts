/** How often which values occur among elements that are all in memory. */
import { comparableNumbers } from "./comparable-values.js";
import { type DType, dtypeFacts } from "./dtype.js";
import { positionBetween, rangeOf, type ValueRange } from "./value-range.js";

export interface Histogram extends ValueRange {
  readonly elementCount: number;
  /** "magnitude" for complex dtypes: the bins are then of absolute values. */
  readonly of: "value" | "magnitude";
  /**
   * Elements in each of the equal parts of `from` to `to`. If `isDiscrete`, there is one for each
   * integer from `from` to `to`. Empty if no element is finite.
   */
  readonly counts: readonly number[];
  readonly isDiscrete: boolean;
}

/**
 * Counts the elements in bins of equal width. 64-bit integers are rounded to float64.
 * @param binsMax the most bins
 * @throws RangeError if the bytes are not whole elements
 */
export function histogram(dtype: DType, bytes: Uint8Array, binsMax: number): Histogram {
  const values = comparableNumbers(dtype, bytes);
  const range = rangeOf(values);
  const { kind } = dtypeFacts(dtype);
  const isInteger = kind !== "float" && kind !== "complex";
  const isDiscrete = isInteger && range.to - range.from < binsMax;
  const binCount = isDiscrete || range.from === range.to ? range.to - range.from + 1 : binsMax;
  const counts = new Array<number>(range.finiteCount === 0 ? 0 : binCount).fill(0);
  const position = positionBetween(range.from, range.to);
  const last = counts.length - 1;
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i] as number;
    if (!Number.isFinite(value)) continue;
    const bin = isDiscrete
      ? value - range.from
      : Math.min(last, Math.floor(position(value) * counts.length));
    counts[bin] = (counts[bin] as number) + 1;
  }
  const of = kind === "complex" ? "magnitude" : "value";
  return { elementCount: values.length, of, ...range, counts, isDiscrete };
}
