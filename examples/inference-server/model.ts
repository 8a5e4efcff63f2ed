/**
 * The "model": finds which of nine colours is nearest to the mean pixel of an image. It stands in
 * for a network and is small enough to read and check. Its weights are a bundle on the hub, which
 * all workers map. Means are computed where the image is: for an image in GPU memory, by kernels.
 */
import { CudaIpcError, type DeviceArray, type Hub } from "cuda-ipc";

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

/** The arrays of the bundle. */
const WEIGHTS = {
  "colours.weight": { dtype: "float32", shape: [9, 3] },
  "softmax.scale": { dtype: "float32", shape: [1] },
} as const;

/** The weights of the model, copied from shared memory. */
export interface Model {
  readonly colours: Float32Array;
  readonly scale: number;
}

/** Puts the weights into shared memory, once for all workers. They end with the caller. */
export async function putWeights(hub: Hub, name: string): Promise<Disposable> {
  const bundle = await hub.createBundle(name, WEIGHTS);
  const values = labels.flatMap((label) => COLOURS[label]);
  await bundle.array("colours.weight").write(Float32Array.from(values));
  await bundle.array("softmax.scale").write(Float32Array.of(-1 / 32));
  await bundle.publish();
  return bundle;
}

/** Maps the weights for reading, in a worker. A real model computes on the mapped arrays. */
export async function openModel(hub: Hub, name: string): Promise<Model & Disposable> {
  const bundle = await hub.openBundle(name);
  const read = async (array: keyof typeof WEIGHTS) =>
    bundle.array(array).expectDType("float32").read();
  const [colours, [scale]] = [await read("colours.weight"), await read("softmax.scale")];
  if (colours.length !== 3 * labels.length || scale === undefined)
    throw new CudaIpcError("INVALID_FILE", `Cannot use model "${name}": its weights are not whole`);
  return { colours, scale, [Symbol.dispose]: () => bundle.close() };
}

export async function classify(
  image: DeviceArray<"uint8">,
  { colours, scale }: Model,
): Promise<Float32Array> {
  const means: number[] = [];
  for (let channel = 0; channel < 3; channel += 1)
    means.push((await image.slice(channel).statistics()).mean ?? 0);
  const nearness = labels.map((_, i) =>
    Math.exp(scale * distance(means, colours.subarray(3 * i, 3 * i + 3))),
  );
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

function distance(one: readonly number[], other: ArrayLike<number>): number {
  return Math.hypot(...one.map((value, i) => value - (other[i] ?? 0)));
}
