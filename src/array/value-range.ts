/** The finite range of values, what is outside of it, and where in it a value is. */

export interface ValueRange {
  /** The lowest and the highest finite value. Both are 0 if there is none. */
  readonly from: number;
  readonly to: number;
  readonly finiteCount: number;
  readonly nanCount: number;
  readonly positiveInfiniteCount: number;
  readonly negativeInfiniteCount: number;
}

export function rangeOf(values: Float64Array): ValueRange {
  let from = Number.POSITIVE_INFINITY;
  let to = Number.NEGATIVE_INFINITY;
  let nanCount = 0;
  let positiveInfiniteCount = 0;
  let negativeInfiniteCount = 0;
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i] as number;
    if (Number.isNaN(value)) nanCount += 1;
    else if (value === Number.POSITIVE_INFINITY) positiveInfiniteCount += 1;
    else if (value === Number.NEGATIVE_INFINITY) negativeInfiniteCount += 1;
    else {
      if (value < from) from = value;
      if (value > to) to = value;
    }
  }
  const finiteCount = values.length - nanCount - positiveInfiniteCount - negativeInfiniteCount;
  const range = finiteCount > 0 ? { from, to } : { from: 0, to: 0 };
  return { ...range, finiteCount, nanCount, positiveInfiniteCount, negativeInfiniteCount };
}

/** Returns where a value is between `from` (0) and `to` (1). If both are the same, 0. */
export function positionBetween(from: number, to: number): (value: number) => number {
  // WHY halves: the difference of two large floats can overflow.
  const scale = Number.isFinite(to - from) ? 1 : 0.5;
  const start = from * scale;
  const width = to * scale - start;
  if (width === 0) return () => 0;
  return (value) => (value * scale - start) / width;
}
