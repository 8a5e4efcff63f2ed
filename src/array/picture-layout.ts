/** Which part of an array a picture shows, and how far it is thinned out. */
import { type ArrayLayout, elementCount } from "./layout.js";
import { sliceLayout, transposeLayout } from "./layout-views.js";

export interface PictureLayout {
  /** Rows, columns and channels of the picture, in the array's memory. */
  readonly layout: ArrayLayout;
  readonly width: number;
  readonly height: number;
  /** 1 is grey, 3 is red, green and blue, 4 has alpha as well. */
  readonly channels: 1 | 3 | 4;
  /** The picture has every `step`-th row and column. */
  readonly step: number;
  /** Sizes of the axes before rows and columns, of which the picture shows one index each. */
  readonly choices: readonly number[];
  /** The index shown of each of these axes. */
  readonly at: readonly number[];
}

/** Rows or columns. Smaller arrays with three axes have no colours. */
const COLOUR_SIDE_MIN = 8;
const ASPECT_MAX = 64;

/**
 * Lays out a picture of the last two axes, or of three if one of them has 3 or 4 channels. Returns
 * why not, as a clause, if the array does not look like an image.
 * @param at the index of each other axis; the first if it is left out, the last if it is too large
 * @param sideMax the most rows and columns of the picture
 */
export function pictureLayout(
  array: ArrayLayout,
  at: readonly number[],
  sideMax: number,
): PictureLayout | string {
  if (array.shape.length < 2) return "it has fewer than two axes";
  if (elementCount(array.shape) === 0) return "it has no elements";
  const { layout, channels } = withChannelsLast(array);
  const choices = layout.shape.slice(0, -3);
  const indices = choices.map((size, axis) => indexWithin(size, at[axis]));
  const whole = sliceLayout(layout, indices);
  const [rows = 1, columns = 1] = whole.shape;
  if (Math.min(rows, columns) < 2) return `${rows} x ${columns} elements are a line`;
  const aspect = Math.max(rows, columns) / Math.min(rows, columns);
  if (aspect > ASPECT_MAX) return `${rows} x ${columns} elements are too long for a picture`;
  const step = Math.ceil(Math.max(rows, columns) / sideMax);
  const thinned = sliceLayout(whole, [{ step }, { step }]);
  const [height = 1, width = 1] = thinned.shape;
  return { layout: thinned, width, height, channels, step, choices, at: indices };
}

function withChannelsLast(array: ArrayLayout): {
  readonly layout: ArrayLayout;
  readonly channels: PictureLayout["channels"];
} {
  const { shape, strides } = array;
  const [third = 1, second = 1, last = 1] = shape.slice(-3);
  if (shape.length >= 3) {
    if (last === 1) return { layout: array, channels: 1 };
    const isLast = last === 3 || last === 4;
    if (isLast && Math.min(third, second) >= COLOUR_SIDE_MIN)
      return { layout: array, channels: last };
    const isFirst = third === 3 || third === 4;
    if (isFirst && Math.min(second, last) >= COLOUR_SIDE_MIN) {
      const rank = shape.length;
      const others = shape.slice(0, -3).map((_, axis) => axis);
      const order = [...others, rank - 2, rank - 1, rank - 3];
      return { layout: transposeLayout(array, order), channels: third };
    }
  }
  return { layout: { ...array, shape: [...shape, 1], strides: [...strides, 1] }, channels: 1 };
}

function indexWithin(size: number, index: number | undefined): number {
  if (index === undefined || !Number.isSafeInteger(index) || index < 0) return 0;
  return Math.min(index, size - 1);
}
