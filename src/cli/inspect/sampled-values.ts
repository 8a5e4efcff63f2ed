/** What a sample of an array tells of its values, in a time that its size does not change much. */
import { type Histogram, histogram } from "../../array/histogram.js";
import { sampleLayout } from "../../array/sample-layout.js";
import { type Statistics, statistics } from "../../array/statistics.js";
import type { WaitOptions } from "../../base/deadline.js";
import { DeviceArray } from "../../gpu/arrays/device-array.js";

/** Few enough to count them without keeping the event loop for long. */
const SAMPLE_ELEMENTS = 2 ** 18;

/** Statistics and a histogram of at most 262,144 elements, spread over the array. */
export async function readSampled(
  array: DeviceArray,
  binsMax: number,
  options: WaitOptions,
): Promise<{ readonly statistics: Statistics; readonly histogram: Histogram }> {
  const { dtype } = array;
  const bytes = await readSample(array, options);
  return {
    statistics: statistics(dtype, bytes),
    histogram: histogram(dtype, bytes, binsMax),
  };
}

/** The bytes of at most 262,144 elements, spread over the array. */
export async function readSample(
  array: DeviceArray,
  { signal, timeoutMs }: WaitOptions,
): Promise<Uint8Array> {
  const layout = sampleLayout(array.layout, SAMPLE_ELEMENTS);
  const sample = new DeviceArray(array.buffer, { ...layout, dtype: array.dtype });
  const values = await sample.read({ signal, timeoutMs });
  return new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
}
