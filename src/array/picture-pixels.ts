/** The colours of a picture, from its elements. */
import { comparableNumbers } from "./comparable-values.js";
import { type DType, dtypeFacts } from "./dtype.js";
import { positionBetween, rangeOf, type ValueRange } from "./value-range.js";

export interface PicturePixels {
  /** Red, green, blue and alpha of each pixel, row by row. */
  readonly rgba: Uint8Array;
  /** The values that are drawn darkest and brightest. */
  readonly darkest: number;
  readonly brightest: number;
  /** The least and the greatest value of the elements in the picture. */
  readonly range: ValueRange;
  /** False if there are four channels, and the fourth does not look like alpha. */
  readonly hasAlpha: boolean;
}

/** Colours of what has no brightness. */
export const specialColours = {
  nan: [225, 29, 143],
  positiveInfinite: [245, 158, 11],
  negativeInfinite: [37, 99, 235],
} as const;

/** From this value on, floats up to 1 are taken as brightnesses. */
const BRIGHTNESS_MAX_MIN = 0.1;

/**
 * Draws elements in C order. uint8 is drawn from 0 to 255, bool and floats that look like
 * brightnesses from 0 to 1, and all else from the lowest to the highest value.
 * @param channels how many elements each pixel has
 * @throws RangeError if the bytes are not whole elements
 */
export function picturePixels(dtype: DType, bytes: Uint8Array, channels: 1 | 3 | 4): PicturePixels {
  const values = comparableNumbers(dtype, bytes);
  const range = rangeOf(values);
  const { darkest, brightest, isFixed } = brightnessOf(dtype, channels, range);
  const position = positionBetween(darkest, brightest);
  const hasAlpha = channels === 4 && isFixed;
  const colourCount = Math.min(channels, 3);
  const rgba = new Uint8Array((values.length / channels) * 4);
  for (let from = 0, to = 0; from < values.length; from += channels, to += 4) {
    const special = specialColour(values, from, colourCount);
    for (let i = 0; i < 3; i += 1) {
      const value = values[from + (channels === 1 ? 0 : i)] as number;
      rgba[to + i] = special?.[i] ?? level(position(value));
    }
    const alpha = values[from + 3];
    rgba[to + 3] = hasAlpha && Number.isFinite(alpha) ? level(position(alpha as number)) : 255;
  }
  return { rgba, darkest, brightest, range, hasAlpha };
}

function brightnessOf(dtype: DType, channels: number, { from, to }: ValueRange) {
  const { kind } = dtypeFacts(dtype);
  if (kind === "bool") return { darkest: 0, brightest: 1, isFixed: true };
  if (dtype === "uint8") return { darkest: 0, brightest: 255, isFixed: true };
  if (kind === "float" && from >= 0) {
    if (to >= BRIGHTNESS_MAX_MIN && to <= 1) return { darkest: 0, brightest: 1, isFixed: true };
    if (channels >= 3 && to > 1 && to <= 255) return { darkest: 0, brightest: 255, isFixed: true };
  }
  return { darkest: from, brightest: to, isFixed: false };
}

/** The colour of a pixel of which a colour channel is not finite. */
function specialColour(
  values: Float64Array,
  from: number,
  colourCount: number,
): readonly number[] | undefined {
  let infinite = 0;
  for (let i = from; i < from + colourCount; i += 1) {
    const value = values[i] as number;
    if (Number.isNaN(value)) return specialColours.nan;
    if (!Number.isFinite(value)) infinite = value;
  }
  if (infinite === 0) return undefined;
  return infinite > 0 ? specialColours.positiveInfinite : specialColours.negativeInfinite;
}

/** From 0 to 255. */
function level(position: number): number {
  return Math.round(255 * Math.min(1, Math.max(0, position)));
}
