/**
 * The model: two layers of a small network, whose weights come from a fixed seed. Its weights are a
 * bundle on the hub, with the names that PyTorch gives them. The same network in TypeScript checks
 * the answers.
 */
import type { Hub } from "cuda-ipc";

export const INPUTS = 784;
const HIDDEN = 256;
const OUTPUTS = 10;
const SEED = 20_260_101;

/** The arrays of the bundle, named as in `torch.nn.Sequential(Linear, ReLU, Linear)`. */
const WEIGHTS = {
  "0.weight": { dtype: "float32", shape: [HIDDEN, INPUTS] },
  "0.bias": { dtype: "float32", shape: [HIDDEN] },
  "2.weight": { dtype: "float32", shape: [OUTPUTS, HIDDEN] },
  "2.bias": { dtype: "float32", shape: [OUTPUTS] },
} as const;

type Weights = Readonly<Record<keyof typeof WEIGHTS, Float32Array>>;

export function makeWeights(): Weights {
  const random = randomFrom(SEED);
  const made = Object.entries(WEIGHTS).map(([name, { shape }]) => {
    const length = shape.reduce((product, one) => product * one, 1);
    const scale = 2 / Math.sqrt(shape.at(-1) ?? 1);
    return [name, Float32Array.from({ length }, () => (random() - 0.5) * scale)];
  });
  return Object.fromEntries(made) as Weights;
}

/** Puts the weights into shared memory, once for all workers. They end with the caller. */
export async function putWeights(hub: Hub, name: string, weights: Weights): Promise<Disposable> {
  const bundle = await hub.createBundle(name, WEIGHTS, { metadata: { format: "pt" } });
  for (const [key, values] of Object.entries(weights)) await bundle.array(key).write(values);
  await bundle.publish();
  return bundle;
}

/** An input, from its number. */
export function inputOf(number: number): Float32Array {
  const random = randomFrom(number + 1);
  return Float32Array.from({ length: INPUTS }, () => random());
}

/** The outputs of the network for an input. */
export function answerTo(input: Float32Array, weights: Weights): Float32Array {
  const hidden = layer(input, weights["0.weight"], weights["0.bias"]);
  return layer(
    hidden.map((value) => Math.max(0, value)),
    weights["2.weight"],
    weights["2.bias"],
  );
}

function layer(input: Float32Array, weight: Float32Array, bias: Float32Array): Float32Array {
  return bias.map((start, row) =>
    input.reduce((sum, value, i) => sum + value * (weight[row * input.length + i] ?? 0), start),
  );
}

/** Numbers from 0 to 1 that are the same in each run (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}
