/** Summary statistics of an array's values, computed piece by piece from its bytes. */
import { comparableValues, type NumberArray } from "./comparable-values.js";
import { type DType, dtypeFacts } from "./dtype.js";

export interface Statistics {
  readonly elementCount: number;
  /** Elements that are NaN, for complex values in either part. They count in nothing else. */
  readonly nanCount: number;
  /** Elements that are infinite. They count in `min` and `max`, not in `mean`. */
  readonly infiniteCount: number;
  readonly zeroCount: number;
  /** "magnitude" for complex dtypes: `min`, `max` and `mean` are then of absolute values. */
  readonly of: "value" | "magnitude";
  /** A bigint for 64-bit integers. Undefined if all elements are NaN or there are none. */
  readonly min: number | bigint | undefined;
  readonly max: number | bigint | undefined;
  /** The mean of the finite elements; for bool the share of true. Undefined if there are none. */
  readonly mean: number | undefined;
}

/** The statistics of elements that are all in memory. */
export function statistics(dtype: DType, bytes: Uint8Array): Statistics {
  const accumulator = new StatisticsAccumulator(dtype);
  accumulator.add(bytes);
  return accumulator.result();
}

/** Elements that are summed before they go into the mean. Short sums are exact enough. */
const BLOCK_ELEMENTS = 4096;

/** Takes the bytes of an array in pieces of whole elements, in any order. */
export class StatisticsAccumulator {
  readonly #dtype: DType;
  #elementCount = 0;
  #nanCount = 0;
  #infiniteCount = 0;
  #zeroCount = 0;
  #finiteCount = 0;
  #mean = 0;
  #min: number | bigint | undefined;
  #max: number | bigint | undefined;

  constructor(dtype: DType) {
    dtypeFacts(dtype);
    this.#dtype = dtype;
  }

  /** @throws RangeError if the bytes are not whole elements */
  add(bytes: Uint8Array): void {
    const { byteSize } = dtypeFacts(this.#dtype);
    if (bytes.byteLength % byteSize !== 0) {
      throw new RangeError(
        `Cannot add ${bytes.byteLength} bytes: not whole elements of ${byteSize} bytes`,
      );
    }
    const blockBytes = BLOCK_ELEMENTS * byteSize;
    for (let start = 0; start < bytes.byteLength; start += blockBytes) {
      const block = comparableValues(this.#dtype, bytes.subarray(start, start + blockBytes));
      if (block instanceof BigInt64Array || block instanceof BigUint64Array)
        this.#addBigInts(block);
      else this.#addNumbers(block);
    }
    this.#elementCount += bytes.byteLength / byteSize;
  }

  result(): Statistics {
    return {
      elementCount: this.#elementCount,
      nanCount: this.#nanCount,
      infiniteCount: this.#infiniteCount,
      zeroCount: this.#zeroCount,
      of: dtypeFacts(this.#dtype).kind === "complex" ? "magnitude" : "value",
      min: this.#min,
      max: this.#max,
      mean: this.#finiteCount === 0 ? undefined : this.#mean,
    };
  }

  #addNumbers(block: NumberArray): void {
    let min = Number.POSITIVE_INFINITY;
    let max = Number.NEGATIVE_INFINITY;
    let sum = 0;
    let nans = 0;
    let infinities = 0;
    for (let i = 0; i < block.length; i += 1) {
      const value = block[i] as number;
      if (Number.isNaN(value)) {
        nans += 1;
        continue;
      }
      if (value < min) min = value;
      if (value > max) max = value;
      if (value === 0) this.#zeroCount += 1;
      if (value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY) infinities += 1;
      else sum += value;
    }
    this.#nanCount += nans;
    this.#infiniteCount += infinities;
    if (nans < block.length) this.#addExtremes(min, max);
    const finiteCount = block.length - nans - infinities;
    this.#addMean(
      Number.isFinite(sum) ? sum / finiteCount : meanWithoutSum(block, finiteCount),
      finiteCount,
    );
  }

  #addBigInts(block: BigInt64Array | BigUint64Array): void {
    let min = block[0] as bigint;
    let max = min;
    let sum = 0;
    for (let i = 0; i < block.length; i += 1) {
      const value = block[i] as bigint;
      if (value < min) min = value;
      if (value > max) max = value;
      if (value === 0n) this.#zeroCount += 1;
      sum += Number(value);
    }
    this.#addExtremes(min, max);
    this.#addMean(sum / block.length, block.length);
  }

  #addExtremes(min: number | bigint, max: number | bigint): void {
    if (this.#min === undefined || min < this.#min) this.#min = min;
    if (this.#max === undefined || max > this.#max) this.#max = max;
  }

  #addMean(blockMean: number, blockCount: number): void {
    if (blockCount === 0) return;
    const total = this.#finiteCount + blockCount;
    // WHY weighted: the difference of the means can overflow.
    this.#mean = this.#mean * (this.#finiteCount / total) + blockMean * (blockCount / total);
    this.#finiteCount = total;
  }
}

/** The mean of values whose sum overflows. */
function meanWithoutSum(block: NumberArray, finiteCount: number): number {
  let mean = 0;
  for (const value of block) {
    if (Number.isFinite(value)) mean += value / finiteCount;
  }
  return mean;
}
