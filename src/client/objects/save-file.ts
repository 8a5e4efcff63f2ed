/** Saves an object as a file, or as a folder of safetensors files with their index. */

import { Deadline } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { aString } from "../../base/option-checks.js";
import { writeFileAtomically, writeFolderAtomically } from "../../files/atomic-write.js";
import { type FileFormat, formatByName } from "../../files/file-format.js";
import { whatNameSays } from "../../files/foreign-formats.js";
import { encodeShardIndex, planShards, shardIndexName } from "../../files/shard-index.js";
import { planArrayStore, planSafetensorsStore, type StorePlan } from "../../files/store-plan.js";
import { writeStore } from "../../files/write-store.js";
import type { DeviceArray } from "../../gpu/arrays/device-array.js";
import type { Saved, SaveOptions } from "../hub-options.js";
import type { HubObjects } from "./hub-objects.js";
import { openAny } from "./open-arrays.js";
import { SharedArray } from "./shared-array.js";
import type { SharedBundle } from "./shared-bundle.js";

export async function saveFile(
  objects: HubObjects,
  name: string,
  path: string,
  options: SaveOptions,
): Promise<Saved> {
  aString("path", path);
  checkShardBytes(options);
  const deadline = new Deadline(
    `save "${name}" to ${JSON.stringify(path)}`,
    options,
    Number.POSITIVE_INFINITY,
  );
  try {
    const { wait, timeoutMs, signal } = options;
    using shared = await openAny(objects, name, { wait, timeoutMs, signal });
    if (options.shardBytesMax !== undefined) {
      return await saveFolder(shared, path, options, options.shardBytesMax, deadline);
    }
    const { plan, content } = planFile(shared, path, options);
    const onProgress = reporter(options, plan.byteLength);
    await writeFileAtomically(path, options, (file) =>
      writeStore({ buffer: shared.buffer, file, path, deadline }, plan, onProgress),
    );
    return { content, byteLength: plan.byteLength, paths: [path] };
  } catch (error) {
    throw deadline.named(error);
  }
}

function checkShardBytes({ shardBytesMax, array, format }: SaveOptions): void {
  if (shardBytesMax === undefined) return;
  if (array !== undefined)
    throw new TypeError("shardBytesMax is for whole bundles: leave array out");
  if (format !== undefined && format !== "safetensors") {
    throw new TypeError(`shardBytesMax is for safetensors files, not ${format}`);
  }
}

function reporter({ onProgress }: SaveOptions, totalBytes: number): (doneBytes: number) => void {
  const report = (doneBytes: number) => onProgress?.({ doneBytes, totalBytes });
  report(0);
  return report;
}

interface FilePlan {
  readonly plan: StorePlan;
  readonly content: Saved["content"];
}

function planFile(
  shared: SharedArray | SharedBundle,
  path: string,
  options: SaveOptions,
): FilePlan {
  const { name } = shared;
  const format = options.format ?? formatByName(path);
  const arrayFormat = () => options.format ?? savedFormat(name, path);
  if (shared instanceof SharedArray) {
    if (options.array === undefined) return planArray(name, arrayFormat(), shared);
    const found = `it is an array of its own, ${shared.dtype}[${shared.shape.join(", ")}]`;
    throw new CudaIpcError(
      "WRONG_KIND",
      `Cannot save array "${options.array}" of "${name}": ${found}`,
    );
  }
  if (options.array !== undefined)
    return planArray(options.array, arrayFormat(), shared.array(options.array));
  if (format === "safetensors") {
    const content = { kind: "bundle", arrayCount: shared.size } as const;
    return { plan: planSafetensorsStore(new Map(shared), shared.metadata), content };
  }
  const found = `it is a bundle`;
  throw new CudaIpcError(
    "WRONG_KIND",
    `Cannot save "${name}" to ${JSON.stringify(path)}: ${found}. ` +
      "Name a .safetensors file, or one of its arrays.",
  );
}

/** @throws WRONG_KIND if the name says a format that is not written, such as .npz */
function savedFormat(name: string, path: string): FileFormat {
  const format = formatByName(path);
  const what = format === "raw" ? whatNameSays(path) : undefined;
  if (what === undefined) return format;
  throw new CudaIpcError(
    "WRONG_KIND",
    `Cannot save "${name}" to ${JSON.stringify(path)}: the name is that of ${what}`,
    {
      remedy:
        "Name an .npy or .safetensors file. " +
        'For raw bytes pass `format: "raw"` (in commands: --format raw).',
    },
  );
}

function planArray(name: string, format: FileFormat, array: DeviceArray): FilePlan {
  const content = { kind: "array", dtype: array.dtype, shape: array.shape } as const;
  return { plan: planArrayStore(format, name, array), content };
}

async function saveFolder(
  shared: SharedArray | SharedBundle,
  path: string,
  options: SaveOptions,
  shardBytesMax: number,
  deadline: Deadline,
): Promise<Saved> {
  if (shared instanceof SharedArray) {
    const found = "it is an array. shardBytesMax is for bundles.";
    throw new CudaIpcError("WRONG_KIND", `Cannot save "${shared.name}" to several files: ${found}`);
  }
  const { buffer } = shared;
  const shards = planShards(new Map(shared), shardBytesMax);
  const plans = [...shards].map(([file, names]) => {
    const own = new Map(names.map((name) => [name, shared.array(name)]));
    return { file, plan: planSafetensorsStore(own, shared.metadata) };
  });
  const byteLength = plans.reduce((sum, { plan }) => sum + plan.byteLength, 0);
  const paths = plans.map(({ file }) => `${path}/${file}`);
  const onProgress = reporter(options, byteLength);
  await writeFolderAtomically(path, options, async (folder) => {
    let before = 0;
    for (const { file: fileName, plan } of plans) {
      await folder.writeFile(fileName, (file) => {
        const target = { buffer, file, path: `${path}/${fileName}`, deadline };
        return writeStore(target, plan, (done) => onProgress(before + done));
      });
      before += plan.byteLength;
    }
    if (shards.size === 1) return;
    await folder.writeFile(shardIndexName, (file) =>
      file.writeFile(encodeShardIndex(shards, byteLength)),
    );
    paths.push(`${path}/${shardIndexName}`);
  });
  return { content: { kind: "bundle", arrayCount: shared.size }, byteLength, paths };
}
