/** Builds safetensors files and folders for tests. */
import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { DType } from "../../src/array/dtype.js";
import { encodeSafetensorsHeader, planSafetensors } from "../../src/files/safetensors-encoding.js";
import { shardIndexName } from "../../src/files/shard-index.js";

interface FileArray {
  readonly dtype: DType;
  readonly shape: readonly number[];
}

/** Bytes of a file with these arrays, whose data are 0, 1, 0, 1, ... shifted by `seed`. */
export function safetensorsFile(
  arrays: Readonly<Record<string, FileArray>>,
  metadata: Readonly<Record<string, string>> = {},
  seed = 0,
): Buffer {
  const plan = planSafetensors(Object.entries(arrays).map(([name, array]) => ({ name, ...array })));
  const data = Uint8Array.from(
    { length: plan.dataByteLength },
    (_, i) => ((i * 7 + seed) >> 1) % 2,
  );
  return Buffer.concat([
    encodeSafetensorsHeader(plan.arrays, new Map(Object.entries(metadata))),
    data,
  ]);
}

/** A folder with these files; texts and bytes by path. */
export function writeFolder(
  folder: string,
  files: Readonly<Record<string, string | Uint8Array>>,
): string {
  for (const [name, content] of Object.entries(files)) {
    const path = join(folder, name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, content);
  }
  return folder;
}

export function indexText(weightMap: Readonly<Record<string, string>>): string {
  return JSON.stringify({ metadata: { total_size: 123 }, weight_map: weightMap });
}

const uint8 = { dtype: "uint8", shape: [5] } as const;
const float32 = { dtype: "float32", shape: [2, 3] } as const;

/** Two files of two arrays each, and their index. */
export function shardedModel(): Record<string, string | Uint8Array> {
  const [first, second] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];
  return {
    [first]: safetensorsFile({ a: float32, b: uint8 }, { format: "pt", part: "1" }, 1),
    [second]: safetensorsFile({ c: float32, d: uint8 }, { format: "pt", part: "2" }, 2),
    [shardIndexName]: indexText({ a: first, b: first, c: second, d: second }),
  };
}
