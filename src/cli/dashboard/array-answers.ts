/** What a page is told of an array's values: numbers, a histogram, and a picture. */
import { type PictureLayout, pictureLayout } from "../../array/picture-layout.js";
import { type PicturePixels, picturePixels } from "../../array/picture-pixels.js";
import { DeviceArray } from "../../gpu/arrays/device-array.js";
import { jsonAnswer, type WebAnswer } from "../../web/web-messages.js";
import { numberText, READ_ALL, readValues } from "../inspect/array-values.js";
import { layoutRows, type Row, valueRows } from "../inspect/inspection-rows.js";
import { readSampled } from "../inspect/sampled-values.js";
import type { Terminal } from "../terminal/terminal.js";
import { arrayWords, plural } from "../terminal/words.js";
import { encodePng } from "./png.js";

const PICTURE_SIDE_MAX = 512;
const BINS_MAX = 64;

/** Statistics of all elements. It reads the whole array. */
export async function allValues(
  array: DeviceArray,
  terminal: Terminal,
  signal: AbortSignal,
): Promise<WebAnswer> {
  const values = await readValues(array, { terminal, signal }, READ_ALL);
  return jsonAnswer({ rows: [...arrayRows(array), ...valueRows(values)] });
}

/** Statistics and a histogram of a sample, which is all elements of a small array. */
export async function sampledValues(array: DeviceArray, signal: AbortSignal): Promise<WebAnswer> {
  const { statistics, histogram } = await readSampled(array, BINS_MAX, { signal });
  const sampled = histogram.elementCount < array.elementCount;
  // The first values are not in the sample.
  const rows = valueRows({ statistics, firstValues: [] }).slice(1);
  const note = sampled
    ? `From ${histogram.elementCount} of ${plural(array.elementCount, "element")}, evenly spread.`
    : "";
  const { byteLength } = array;
  return jsonAnswer({ rows: [...arrayRows(array), ...rows], histogram, sampled, note, byteLength });
}

function arrayRows(array: DeviceArray): Row[] {
  return [["array", arrayWords(array)], ...layoutRows(array.layout)];
}

/**
 * A picture as PNG, with its facts in the header `Picture`. Status 204 and the reason in the header
 * `No-Picture` if the array does not look like an image.
 * @param at the index of each axis before rows and columns
 */
export async function picture(
  array: DeviceArray,
  at: readonly number[],
  signal: AbortSignal,
): Promise<WebAnswer> {
  const found = pictureLayout(array.layout, at, PICTURE_SIDE_MAX);
  if (typeof found === "string") return { status: 204, headers: { "No-Picture": found } };
  const { layout, width, height, channels, choices } = found;
  const { dtype, buffer } = array;
  const values = await new DeviceArray(buffer, { ...layout, dtype }).read({ signal });
  const bytes = new Uint8Array(values.buffer, values.byteOffset, values.byteLength);
  const pixels = picturePixels(dtype, bytes, channels);
  const { nanCount, positiveInfiniteCount, negativeInfiniteCount } = pixels.range;
  const facts = {
    at: found.at,
    choices,
    words: pictureWords(array, found, pixels),
    nanCount,
    positiveInfiniteCount,
    negativeInfiniteCount,
  };
  return {
    status: 200,
    type: "image/png",
    headers: { Picture: JSON.stringify(facts) },
    body: await encodePng(width, height, pixels.rgba),
  };
}

function pictureWords(
  { dtype }: DeviceArray,
  { step, channels }: PictureLayout,
  { darkest, brightest, hasAlpha }: PicturePixels,
): string {
  const every = step === 1 ? "every element" : `every ${ordinal(step)} row and column`;
  const colours = { 1: "grey", 3: "red, green and blue", 4: "red, green and blue" }[channels];
  const alpha = channels === 4 ? (hasAlpha ? " with alpha" : ", without the fourth") : "";
  const of = dtype.startsWith("complex") ? "magnitudes " : "";
  const range = `${of}from ${numberText(darkest)} (dark) to ${numberText(brightest)} (bright)`;
  return `Shows ${every}, as ${colours}${alpha}, ${range}.`;
}

function ordinal(count: number): string {
  const end = count % 100 >= 11 && count % 100 <= 13 ? 0 : count % 10;
  return `${count}${{ 1: "st", 2: "nd", 3: "rd" }[end] ?? "th"}`;
}
