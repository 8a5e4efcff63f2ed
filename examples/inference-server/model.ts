/**
 * The "model": finds which of nine colours is nearest to the mean pixel of an image. It stands in
 * for a network and is small enough to read and check. Means are computed where the image is: for
 * an image in GPU memory, by kernels.
 */
import type { DeviceArray } from "cuda-ipc";

/** The planes of an image: red, green and blue, each row by row. */
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

/** One score for each label. The sum is 1. */
export const SCORES = { dtype: "float32", shape: [9] } as const;

export async function classify(image: DeviceArray<"uint8">): Promise<Float32Array> {
  const means: number[] = [];
  for (let channel = 0; channel < 3; channel += 1)
    means.push((await image.slice(channel).statistics()).mean ?? 0);
  const nearness = labels.map((label) => Math.exp(-distance(means, COLOURS[label]) / 32));
  const sum = nearness.reduce((total, one) => total + one, 0);
  return Float32Array.from(nearness, (one) => one / sum);
}

export function bestLabel(scores: ArrayLike<number>): string {
  const best = labels.reduce(
    (best, _, i) => ((scores[i] ?? 0) > (scores[best] ?? 0) ? i : best),
    0,
  );
  return labels[best] ?? "";
}

/** The colours of generated images. */
export function colourOf(label: keyof typeof COLOURS): readonly [number, number, number] {
  return COLOURS[label];
}

function distance(one: readonly number[], other: readonly number[]): number {
  return Math.hypot(...one.map((value, i) => value - (other[i] ?? 0)));
}
