/** The reductions of operation-calls.ts, window by window. */
import type { ArithmeticDType } from "../../array/arithmetic.js";
import { dtypeFacts } from "../../array/dtype.js";
import { hostArrayType } from "../../array/host-values.js";
import { decodeToFloat32 } from "../../array/small-floats.js";
import { type Statistics, StatisticsAccumulator } from "../../array/statistics.js";
import type {
  Reduction,
  ReductionKind,
  ReductionOf,
  ReductionResults,
} from "../operation-calls.js";

export interface ReductionSteps<Kind extends ReductionKind> {
  /** The number of elements, each of `elementBytes` bytes. The last may be shorter. */
  readonly count: number;
  readonly elementBytes: number;
  /** Adds the same window of each memory. `index` is the index of its first element. */
  add(windows: readonly ArrayBuffer[], index: number): void;
  result(): ReductionResults[Kind];
}

export function startReduction<Kind extends ReductionKind>(
  reduction: ReductionOf<Kind>,
): ReductionSteps<Kind> {
  // The compiler knows the result type only for each kind by itself.
  return start(reduction) as ReductionSteps<Kind>;
}

function start(
  reduction: Reduction,
): { readonly [Kind in ReductionKind]: ReductionSteps<Kind> }[ReductionKind] {
  switch (reduction.kind) {
    case "compare":
      return compareSteps(reduction);
    case "close":
      return closeSteps(reduction);
    case "checksum":
      return checksumSteps(reduction);
    case "statistics":
      return statisticsSteps(reduction);
  }
}

function compareSteps({ count, elementBytes }: ReductionOf<"compare">): ReductionSteps<"compare"> {
  const of = elementBytes === 1 ? Uint8Array : elementBytes === 2 ? Uint16Array : Uint32Array;
  const units = Math.max(1, elementBytes / 4);
  let differences = 0;
  let first: number | undefined;
  return {
    count,
    elementBytes,
    add([a = new ArrayBuffer(0), b = new ArrayBuffer(0)], index) {
      if (Buffer.from(a).equals(Buffer.from(b))) return;
      const [ofA, ofB] = [new of(a), new of(b)];
      let last = -1;
      for (let i = 0; i < ofA.length; i += 1) {
        if (ofA[i] === ofB[i]) continue;
        const element = Math.floor(i / units);
        if (element === last) continue;
        last = element;
        differences += 1;
        first ??= index + element;
      }
    },
    result: () => ({ differences, first }),
  };
}

function closeSteps({ dtype, count, rtol, atol }: ReductionOf<"close">): ReductionSteps<"close"> {
  const values = valuesOf(dtype);
  let differences = 0;
  let first: number | undefined;
  return {
    count,
    elementBytes: dtypeFacts(dtype).byteSize,
    add([a = new ArrayBuffer(0), b = new ArrayBuffer(0)], index) {
      const [ofA, ofB] = [values(a), values(b)];
      for (let i = 0; i < ofA.length; i += 1) {
        const [x, y] = [Number(ofA[i]), Number(ofB[i])];
        if (x === y) continue;
        // As the kernels do: a bound of an infinite y would be infinite, too.
        if (Number.isFinite(y) && Math.abs(x - y) <= atol + rtol * Math.abs(y)) continue;
        differences += 1;
        first ??= index + i;
      }
    },
    result: () => ({ differences, first }),
  };
}

/** Views a window as numbers or bigints. */
function valuesOf(dtype: ArithmeticDType): (window: ArrayBuffer) => ArrayLike<number | bigint> {
  if (dtype === "float16" || dtype === "bfloat16")
    return (window) => decodeToFloat32(dtype, new Uint16Array(window));
  const of = hostArrayType(dtype);
  return (window) => new of(window, 0, window.byteLength / of.BYTES_PER_ELEMENT);
}

function checksumSteps({ byteLength }: ReductionOf<"checksum">): ReductionSteps<"checksum"> {
  let sum = 0n;
  return {
    count: Math.ceil(byteLength / 4),
    elementBytes: 4,
    add([bytes = new ArrayBuffer(0)], index) {
      const words = wholeWords(bytes);
      // A window has so few words that their sum is exact.
      let part = 0;
      for (let i = 0; i < words.length; i += 1)
        part += mix32((words[i] as number) + Math.imul(index + i, 0x9e3779b1));
      sum = BigInt.asUintN(64, sum + BigInt(part));
    },
    result: () => sum,
  };
}

/** Views the words of a window, the last one padded with zeros. */
function wholeWords(bytes: ArrayBuffer): Uint32Array {
  if (bytes.byteLength % 4 === 0) return new Uint32Array(bytes);
  const padded = new Uint8Array(4 * Math.ceil(bytes.byteLength / 4));
  padded.set(new Uint8Array(bytes));
  return new Uint32Array(padded.buffer);
}

/**
 * The last step of MurmurHash3: each bit of the word changes about half of the bits of the result.
 */
function mix32(value: number): number {
  let mixed = value | 0;
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b);
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35);
  return (mixed ^ (mixed >>> 16)) >>> 0;
}

function statisticsSteps({
  dtype,
  count,
}: ReductionOf<"statistics">): ReductionSteps<"statistics"> {
  const accumulator = new StatisticsAccumulator(dtype);
  return {
    count,
    elementBytes: dtypeFacts(dtype).byteSize,
    add: ([bytes = new ArrayBuffer(0)]) => accumulator.add(new Uint8Array(bytes)),
    result: () => withPlainZeros(accumulator.result()),
  };
}

function withPlainZeros(found: Statistics): Statistics {
  const plain = (value: number | bigint | undefined) =>
    typeof value === "number" ? value + 0 : value;
  return { ...found, min: plain(found.min), max: plain(found.max) };
}
