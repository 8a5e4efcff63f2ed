/** What an array holds, in a few numbers and its first values, found without ever holding all of it. */
import { isArithmetic } from "../array/arithmetic.js";
import { type Statistics, StatisticsAccumulator } from "../array/statistics.js";
import { readFirst, readPiecesInAnyOrder } from "../files/array-pieces.js";
import type { DeviceArray } from "../gpu/device-array.js";
import type { CommandContext } from "./command-context.js";
import { startProgress } from "./progress.js";
import { valueTexts } from "./value-text.js";

export interface ArrayValues {
  readonly statistics: Statistics;
  /** As text, in C order. */
  readonly firstValues: readonly string[];
}

const FIRST_VALUES = 8;
/** Reading less than this takes no longer than loading the kernels that find the statistics on a GPU. */
const ON_GPU_BYTES_MIN = 256 * 1024 * 1024;

export async function readValues(
  array: DeviceArray,
  context: Pick<CommandContext, "terminal" | "signal">,
  onGpuBytesMin: number = ON_GPU_BYTES_MIN,
): Promise<ArrayValues> {
  const { signal } = context;
  const firstValues = valueTexts(array.dtype, await readFirst(array, FIRST_VALUES, { signal }));
  const isForGpu = !array.device.cpuVisible && array.byteLength >= onGpuBytesMin;
  const onGpu = isForGpu && array.isContiguous && isArithmetic(array.dtype);
  const statistics = onGpu ? await array.statistics({ signal }) : await readStatistics(array, context);
  return { statistics, firstValues };
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
