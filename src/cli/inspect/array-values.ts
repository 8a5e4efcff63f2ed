/**
 * Statistics and first values of an array, read in pieces so that it never has to fit in memory.
 */
import { isArithmetic } from "../../array/arithmetic.js";
import { type DType, dtypeFacts } from "../../array/dtype.js";
import { fromHostBytes, hostEntriesPerElement } from "../../array/host-values.js";
import { decodeToFloat32, isSmallFloat, type SmallFloatBits } from "../../array/small-floats.js";
import { type Statistics, StatisticsAccumulator, statistics } from "../../array/statistics.js";
import { readFirst, readPiecesInAnyOrder } from "../../files/array-pieces.js";
import type { DeviceArray } from "../../gpu/arrays/device-array.js";
import type { CommandContext } from "../command-context.js";
import { startProgress } from "../terminal/progress.js";
import { readSample } from "./sampled-values.js";

export interface ArrayValues {
  readonly statistics: Statistics;
  /** In C order. */
  readonly firstValues: readonly string[];
  /** How many elements the array has, if the statistics are of a sample. */
  readonly sampledOf?: number;
}

export interface ReadOptions {
  /** Smaller arrays are read faster than the GPU loads the kernels for statistics. */
  readonly onGpuBytesMin?: number | undefined;
  /** A larger array is sampled if the CPU would read it. */
  readonly readBytesMax?: number | undefined;
}

export const READ_ALL: ReadOptions = { readBytesMax: Number.POSITIVE_INFINITY };

const FIRST_VALUES = 8;
const ON_GPU_BYTES_MIN = 256 * 1024 * 1024;
/** WHY a limit: memory of any size costs its owner nothing, and would be read for hours. */
const READ_BYTES_MAX = 1024 ** 3;

export async function readValues(
  array: DeviceArray,
  context: Pick<CommandContext, "terminal" | "signal">,
  { onGpuBytesMin = ON_GPU_BYTES_MIN, readBytesMax = READ_BYTES_MAX }: ReadOptions = {},
): Promise<ArrayValues> {
  const { signal } = context;
  const firstValues = valueTexts(array.dtype, await readFirst(array, FIRST_VALUES, { signal }));
  const isForGpu = !array.device.cpuVisible && array.byteLength >= onGpuBytesMin;
  const onGpu = isForGpu && array.isContiguous && isArithmetic(array.dtype);
  if (onGpu) return { statistics: await array.statistics({ signal }), firstValues };
  if (array.byteLength <= readBytesMax)
    return { statistics: await readStatistics(array, context), firstValues };
  const sample = await readSample(array, { signal });
  const sampledOf = array.elementCount;
  return { statistics: statistics(array.dtype, sample), firstValues, sampledOf };
}

async function readStatistics(
  array: DeviceArray,
  { terminal, signal }: Pick<CommandContext, "terminal" | "signal">,
): Promise<Statistics> {
  const accumulator = new StatisticsAccumulator(array.dtype);
  const progress = startProgress(terminal, "Reading", array.byteLength);
  let done = 0;
  try {
    for await (const piece of readPiecesInAnyOrder(array, { signal })) {
      accumulator.add(piece);
      done += piece.byteLength;
      progress.update(done);
    }
  } finally {
    progress.stop();
  }
  return accumulator.result();
}

/** The elements in these bytes as text, such as `true`, `0.5` or `1-2i`. */
export function valueTexts(dtype: DType, bytes: Uint8Array): string[] {
  const stored = fromHostBytes(dtype, bytes);
  const { kind } = dtypeFacts(dtype);
  if (kind === "bool")
    return Array.from(stored as Uint8Array, (value) => (value === 0 ? "false" : "true"));
  const values = isSmallFloat(dtype)
    ? decodeToFloat32(dtype, stored as SmallFloatBits<typeof dtype>)
    : stored;
  const texts = Array.from<number | bigint, string>(values, numberText);
  if (hostEntriesPerElement(dtype) === 1) return texts;
  return pairs(texts).map(
    ([real, imaginary]) => `${real}${imaginary.startsWith("-") ? "" : "+"}${imaginary}i`,
  );
}

/** Integers in full, other numbers with the 7 digits of a float32. */
export function numberText(value: number | bigint): string {
  if (typeof value === "bigint" || Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(7)));
}

function pairs(texts: readonly string[]): [string, string][] {
  const result: [string, string][] = [];
  for (let i = 0; i + 1 < texts.length; i += 2) result.push([texts[i] ?? "", texts[i + 1] ?? ""]);
  return result;
}
