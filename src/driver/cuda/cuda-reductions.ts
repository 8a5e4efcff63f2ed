/** Plans the launch of a reduction, and combines the results of its blocks. Pure. */
import { dtypes } from "../../array/dtype.js";
import type { Statistics } from "../../array/statistics.js";
import type {
  Comparison,
  Reduction,
  ReductionKind,
  ReductionOf,
  ReductionResults,
} from "../operation-calls.js";
import { checksumAccumulators } from "./kernels/checksum-kernel.js";
import { type CompareUnit, compareAccumulators, compareUnits } from "./kernels/compare-kernels.js";
import {
  type Extremes,
  extremesOf,
  SUM_SCALE,
  statisticsAccumulators,
} from "./kernels/statistics-kernels.js";
import { f64, u32, u64 } from "./launch-arguments.js";

export interface ReductionPlan {
  readonly kernel: string;
  /** How many steps the kernel's loop has. */
  readonly count: number;
  /** All arguments except the last, which is the address of the results. */
  readonly args: readonly Uint8Array[];
  /** The size of the result of one block. */
  readonly resultBytes: number;
}

export function planReduction(reduction: Reduction): ReductionPlan {
  switch (reduction.kind) {
    case "compare": {
      const { a, b, count, elementBytes } = reduction;
      const unit = unitOf(elementBytes, a | b);
      const args = [u64(a), u64(b), u64(count), u32(elementBytes / unit)];
      return {
        kernel: `compare_${unit}`,
        count,
        args,
        resultBytes: 8 * compareAccumulators.length,
      };
    }
    case "close": {
      const { dtype, a, b, count, rtol, atol } = reduction;
      const args = [u64(a), u64(b), u64(count), f64(rtol), f64(atol)];
      const resultBytes = 8 * compareAccumulators.length;
      return { kernel: `close_${dtype}`, count, args, resultBytes };
    }
    case "checksum": {
      const { from, byteLength } = reduction;
      const count = Math.ceil(byteLength / 4);
      const whole = from % 4n === 0n ? Math.floor(byteLength / 4) : 0;
      const args = [u64(from), u64(count), u64(whole), u64(byteLength)];
      return { kernel: "checksum", count, args, resultBytes: 8 * checksumAccumulators.length };
    }
    case "statistics": {
      const { dtype, from, count } = reduction;
      const resultBytes = 8 * statisticsAccumulators(extremesOf(dtype)).length;
      return { kernel: `statistics_${dtype}`, count, args: [u64(from), u64(count)], resultBytes };
    }
  }
}

/** The largest unit that divides the element and that both addresses are aligned to. */
function unitOf(elementBytes: number, addresses: bigint): CompareUnit {
  const fitting = compareUnits.filter(
    (unit) => elementBytes % unit === 0 && addresses % BigInt(unit) === 0n,
  );
  return fitting.at(-1) ?? 1;
}

type Combine = {
  readonly [Kind in ReductionKind]: (of: ReductionOf<Kind>, words: Words) => ReductionResults[Kind];
};

/** The results of all blocks, in the order of the kernel's accumulators. */
interface Words {
  readonly u64: BigUint64Array;
  readonly s64: BigInt64Array;
  readonly f64: Float64Array;
}

/** @param bytes what the blocks wrote; empty if there was nothing to reduce */
export function combineResults<Kind extends ReductionKind>(
  reduction: ReductionOf<Kind>,
  bytes: Uint8Array,
): ReductionResults[Kind] {
  const { buffer } = Uint8Array.from(bytes);
  const words = {
    u64: new BigUint64Array(buffer),
    s64: new BigInt64Array(buffer),
    f64: new Float64Array(buffer),
  };
  return combine[reduction.kind as Kind](reduction, words);
}

const combine: Combine = {
  compare: (_, { u64 }) => comparison(u64),
  close: (_, { u64 }) => comparison(u64),
  checksum: (_, { u64 }) => u64.reduce((sum, part) => BigInt.asUintN(64, sum + part), 0n),
  statistics: (reduction, words) => statisticsOf(reduction, words),
};

function comparison(words: BigUint64Array): Comparison {
  let differences = 0;
  let first = Number.POSITIVE_INFINITY;
  for (let i = 0; i < words.length; i += 2) {
    if (words[i] === 0n) continue;
    differences += Number(words[i]);
    first = Math.min(first, Number(words[i + 1]));
  }
  return { differences, first: differences === 0 ? undefined : first };
}

function statisticsOf({ dtype, count }: ReductionOf<"statistics">, words: Words): Statistics {
  const type = extremesOf(dtype);
  let [sum, scaled, nanCount, infiniteCount, zeroCount] = [0, 0, 0, 0, 0];
  const width = statisticsAccumulators(type).length;
  for (let i = 0; i < words.u64.length; i += width) {
    sum += words.f64[i + 2] as number;
    scaled += words.f64[i + 3] as number;
    nanCount += Number(words.u64[i + 4]);
    infiniteCount += Number(words.u64[i + 5]);
    zeroCount += Number(words.u64[i + 6]);
  }
  const finiteCount = count - nanCount - infiniteCount;
  const mean = Number.isFinite(sum) ? sum / finiteCount : scaled / finiteCount / SUM_SCALE;
  const isLong = type !== "f64" && dtypes[dtype].byteSize === 8;
  const shown = (value: number | bigint) => (isLong ? value : Number(value) + 0);
  const none = count === nanCount;
  return {
    elementCount: count,
    nanCount,
    infiniteCount,
    zeroCount,
    of: "value",
    min: none ? undefined : shown(extreme(words[type], width, 0, (a, b) => a < b)),
    max: none ? undefined : shown(extreme(words[type], width, 1, (a, b) => a > b)),
    mean: finiteCount === 0 ? undefined : mean,
  };
}

/** The extreme of the values at `offset` in the results of all blocks. */
function extreme(
  words: Words[Extremes],
  width: number,
  offset: number,
  isBeyond: (a: number | bigint, b: number | bigint) => boolean,
): number | bigint {
  let found = words[offset] as number | bigint;
  for (let i = offset + width; i < words.length; i += width) {
    const value = words[i] as number | bigint;
    if (isBeyond(value, found)) found = value;
  }
  return found;
}
