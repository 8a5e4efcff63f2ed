/**
 * The "model": which of nine colours the mean pixel of an image is nearest to. It was not trained and knows nothing else; it stands where a
 * network would, small enough to be read and checked. The means are computed where the image lies, on a GPU by its kernels.
 */
import type { DeviceArray } from "cuda-ipc";

/** An image: red, green and blue one after the other, each row by row. */
export const IMAGE = { dtype: "uint8", shape: [3, 224, 224] } as const;
export const SIDE = 224;

const COLOURS = {
  black: [0, 0, 0],
  white: [255, 255, 255],
  grey: [128, 128, 128],
  red: [255, 0, 0],
  green: [0, 255, 0],
  blue: [0, 0, 255],
  yellow: [255, 255, 0],
  cyan: [0, 255, 255],
  magenta: [255, 0, 255],
} as const;

export const labels = Object.keys(COLOURS) as (keyof typeof COLOURS)[];

/** One score for each label; together they are 1. */
export const SCORES = { dtype: "float32", shape: [9] } as const;

export async function classify(image: DeviceArray<"uint8">): Promise<Float32Array> {
  const means: number[] = [];
  for (let channel = 0; channel < 3; channel += 1) means.push((await image.slice(channel).statistics()).mean ?? 0);
  const nearness = labels.map((label) => Math.exp(-distance(means, COLOURS[label]) / 32));
  const sum = nearness.reduce((total, one) => total + one, 0);
  return Float32Array.from(nearness, (one) => one / sum);
}

export function bestLabel(scores: ArrayLike<number>): string {
  const best = labels.reduce((best, _, i) => ((scores[i] ?? 0) > (scores[best] ?? 0) ? i : best), 0);
  return labels[best] ?? "";
}

/** What a generated image is to look like on the whole. */
export function colourOf(label: keyof typeof COLOURS): readonly [number, number, number] {
  return COLOURS[label];
}

function distance(one: readonly number[], other: readonly number[]): number {
  return Math.hypot(...one.map((value, i) => value - (other[i] ?? 0)));
}
