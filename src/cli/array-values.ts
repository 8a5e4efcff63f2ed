/** What an array holds, in a few numbers and its first values, found without ever holding all of it. */
import { type Statistics, StatisticsAccumulator } from "../array/statistics.js";
import type { DeviceArray } from "../gpu/device-array.js";
import { readFirst, readPiecesInAnyOrder } from "./array-pieces.js";
import type { CommandContext } from "./command-context.js";
import { startProgress } from "./progress.js";
import { valueTexts } from "./value-text.js";

export interface ArrayValues {
  readonly statistics: Statistics;
  /** As text, in C order. */
  readonly firstValues: readonly string[];
}

const FIRST_VALUES = 8;

export async function readValues(array: DeviceArray, { terminal, signal }: CommandContext): Promise<ArrayValues> {
  const accumulator = new StatisticsAccumulator(array.dtype);
  const firstValues = valueTexts(array.dtype, await readFirst(array, FIRST_VALUES, { signal }));
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
  return { statistics: accumulator.result(), firstValues };
}
