/**
 * The index of a model in several safetensors files, in the form of the Hugging Face libraries, and
 * the plan of such files.
 *
 *     {
 *       "metadata": { "total_size": 123 },
 *       "weight_map": { "layer.0.weight": "model-00001-of-00002.safetensors" }
 *     }
 *
 * Pure. It refuses file names that lead out of the folder.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { invalidFile } from "./file-errors.js";
import { JsonError, parseStrictJson, type StrictJson } from "./strict-json.js";

/** Names of arrays by the path of their file relative to the index; sorted by path. */
export type ShardIndex = ReadonlyMap<string, readonly string[]>;

const indexEnd = ".safetensors.index.json";

/** The default name of an index. */
export const shardIndexName = `model${indexEnd}`;

/**
 * True for the name of an index. Diffusers and transformers put the variant before or after
 * "index": `model.safetensors.index.fp16.json`, `model.safetensors.fp16.index.json`.
 */
export function isShardIndexName(path: string): boolean {
  return /\.safetensors(\.[^./]+)*\.index(\.[^./]+)*\.json$/.test(path);
}

/** True for the name of an index that names no variant. */
export function isDefaultIndexName(name: string): boolean {
  return name.endsWith(indexEnd) && !name.slice(0, -indexEnd.length).includes(".");
}

/**
 * @param fileName for messages
 * @throws INVALID_FILE; LIMIT_EXCEEDED for more than `limits.shardsMax` files
 */
export function parseShardIndex(text: Uint8Array, fileName: string): ShardIndex {
  const weightMap = weightMapOf(parsed(text, fileName), fileName);
  const shards = new Map<string, string[]>();
  for (const [arrayName, file] of weightMap) {
    if (typeof file !== "string")
      throw invalidFile(fileName, `weight_map has ${shown(arrayName)} that is no file name`);
    const names = shards.get(file);
    if (names !== undefined) {
      names.push(arrayName);
      continue;
    }
    const flaw = flawOf(file);
    if (flaw !== undefined)
      throw invalidFile(fileName, `weight_map names the file ${shown(file)}, which ${flaw}`);
    shards.set(file, [arrayName]);
    if (shards.size > limits.shardsMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot read ${JSON.stringify(fileName)}: ` +
          `it names more than ${limits.shardsMax} files (shardsMax)`,
      );
    }
  }
  if (shards.size === 0) throw invalidFile(fileName, "weight_map names no array");
  return new Map([...shards].sort(([a], [b]) => (a < b ? -1 : 1)));
}

/** Names of arrays by the name of their file. */
export type ShardNames = ReadonlyMap<string, readonly string[]>;

/**
 * Splits a bundle into files, named as the Hugging Face libraries name them. The arrays keep their
 * order, and each file is as full as `bytesMax` allows. A larger array gets a file of its own. A
 * single file is `model.safetensors`. The first of three is `model-00001-of-00003.safetensors`.
 */
export function planShards(
  arrays: ReadonlyMap<string, { readonly byteLength: number }>,
  bytesMax: number,
): ShardNames {
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
      `Cannot save ${shards.length} files of at most ${bytesMax} bytes: ` +
        `the limit (shardsMax) is ${limits.shardsMax}`,
    );
  }
  const digits = (count: number) => String(count).padStart(5, "0");
  const nameOf = (index: number) => {
    if (shards.length === 1) return "model.safetensors";
    return `model-${digits(index + 1)}-of-${digits(shards.length)}.safetensors`;
  };
  return new Map(shards.map((names, index) => [nameOf(index), names]));
}

/** The text of an index, as the Hugging Face libraries write it. */
export function encodeShardIndex(
  files: ReadonlyMap<string, readonly string[]>,
  totalBytes: number,
): string {
  const pairs = [...files].flatMap(([file, names]) => names.map((name) => [name, file] as const));
  pairs.sort(([a], [b]) => (a < b ? -1 : 1));
  const entries = pairs.map(
    ([name, file]) => `    ${JSON.stringify(name)}: ${JSON.stringify(file)}`,
  );
  // Written by hand, because a JavaScript object would move a name like "10" to the front and
  // would lose "__proto__".
  const weightMap = `{\n${entries.join(",\n")}\n  }`;
  const metadata = `{\n    "total_size": ${totalBytes}\n  }`;
  return `{\n  "metadata": ${metadata},\n  "weight_map": ${weightMap}\n}\n`;
}

function parsed(text: Uint8Array, fileName: string): StrictJson {
  try {
    return parseStrictJson(new TextDecoder("utf-8", { fatal: true }).decode(text));
  } catch (error) {
    if (error instanceof JsonError)
      throw invalidFile(fileName, `it is not valid JSON: ${error.message}`, error);
    if (error instanceof TypeError) throw invalidFile(fileName, "it is not valid UTF-8", error);
    throw error;
  }
}

function weightMapOf(index: StrictJson, fileName: string): ReadonlyMap<string, StrictJson> {
  const weightMap =
    index instanceof Map ? (index as ReadonlyMap<string, StrictJson>).get("weight_map") : undefined;
  if (weightMap instanceof Map) return weightMap as ReadonlyMap<string, StrictJson>;
  throw invalidFile(fileName, "it has no weight_map that gives each array its file");
}

/** Why a path does not stay inside the folder, or undefined if it does. */
function flawOf(file: string): string | undefined {
  if (file === "") return "is empty";
  if (file.includes("\0")) return "holds a NUL character";
  if (file.startsWith("/")) return "is an absolute path";
  const parts = file.split("/");
  if (parts.includes("..")) return "leads out of the folder";
  if (parts.includes("") || parts.includes(".")) return "is no plain path";
  return undefined;
}

function shown(text: string): string {
  return JSON.stringify(text.length > 200 ? `${text.slice(0, 200)}...` : text);
}
