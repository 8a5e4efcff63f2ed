/**
 * How a bundle is cut into several safetensors files, named as the Hugging Face libraries name
 * them. Pure.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";

/** Names of arrays by the name of the file that they go into. */
export type ShardNames = ReadonlyMap<string, readonly string[]>;

/**
 * In the given order, each file as full as `bytesMax` allows. An array that is larger than that has
 * a file of its own. One file is `model.safetensors`, of several the first is
 * `model-00001-of-00003.safetensors`.
 */
export function planShards(arrays: ReadonlyMap<string, { readonly byteLength: number }>, bytesMax: number): ShardNames {
  const shards: string[][] = [];
  let current: string[] = [];
  let bytes = 0;
  for (const [name, { byteLength }] of arrays) {
    if (current.length > 0 && bytes + byteLength > bytesMax) {
      shards.push(current);
      current = [];
      bytes = 0;
    }
    current.push(name);
    bytes += byteLength;
  }
  shards.push(current);
  if (shards.length > limits.shardsMax) {
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot save ${shards.length} files of at most ${bytesMax} bytes: the limit (shardsMax) is ${limits.shardsMax}`,
    );
  }
  const digits = (count: number) => String(count).padStart(5, "0");
  const nameOf = (index: number) => {
    if (shards.length === 1) return "model.safetensors";
    return `model-${digits(index + 1)}-of-${digits(shards.length)}.safetensors`;
  };
  return new Map(shards.map((names, index) => [nameOf(index), names]));
}
