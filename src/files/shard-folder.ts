/** A folder of safetensors files: finds its index, and opens only files inside the folder. */
import { type FileHandle, readdir } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { holdPath } from "../os/held-path.js";
import { fileSystemError, invalidFile } from "./file-errors.js";
import {
  isDefaultIndexName,
  isShardIndexName,
  parseShardIndex,
  type ShardIndex,
  shardIndexName,
} from "./shard-index.js";
import { fileByteLength, openSourceFile, readPiece } from "./source-file.js";

export interface ShardFolder {
  /** As the caller wrote it, for messages. */
  readonly path: string;
  /**
   * The folders where files may be: this one, and the blobs of a Hugging Face cache. Undefined if
   * links may lead anywhere.
   */
  readonly roots: readonly string[] | undefined;
}

export async function openShardFolder(
  path: string,
  { allowLinks = false }: { readonly allowLinks?: boolean | undefined } = {},
): Promise<ShardFolder> {
  try {
    await using folder = await holdPath(path);
    return { path, roots: allowLinks ? undefined : [folder.real, ...cacheRoots(folder.real)] };
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(path)}`, error);
  }
}

/**
 * The Hugging Face cache has links in `models--X/snapshots/REVISION` to files in `models--X/blobs`.
 * The parts of a diffusers model are folders of the revision: `REVISION/vae`.
 */
function cacheRoots(folder: string): string[] {
  const parent = dirname(folder);
  if (parent === folder) return [];
  const own = basename(parent) === "snapshots" ? [join(dirname(parent), "blobs")] : [];
  return [...own, ...cacheRoots(parent)];
}

export interface FolderContent {
  /** Undefined if there is only one file. */
  readonly index: string | undefined;
  /** The one file if there is no index. */
  readonly file: string | undefined;
}

/**
 * Finds what to load: the folder's index, or its only safetensors file. Files without a variant go
 * before files with one (`model.fp16.safetensors`).
 * @throws INVALID_FILE if there is neither
 */
export async function findContent({ path }: ShardFolder): Promise<FolderContent> {
  const names = await namesIn(path);
  if (names.includes(shardIndexName)) return { index: shardIndexName, file: undefined };
  const indexes = names.filter(isShardIndexName);
  const files = names.filter((name) => name.endsWith(".safetensors"));
  const index = onlyOne(indexes.filter(isDefaultIndexName));
  if (index !== undefined) return { index, file: undefined };
  const file = onlyOne(files.filter(isDefaultFile));
  if (file !== undefined && areVariantsOf(file, [...indexes, ...files]))
    return { index: undefined, file };
  const [first, second] = indexes;
  if (first !== undefined && second === undefined) return { index: first, file: undefined };
  if (first !== undefined) {
    throw invalidFile(
      path,
      `the folder has ${indexes.length} indexes (${first}, ${second}, ...); name one of them`,
    );
  }
  if (files[0] === undefined) throw invalidFile(path, "the folder has no .safetensors file");
  if (files.length === 1) return { index: undefined, file: files[0] };
  const missing = `no index that says which belong together (${shardIndexName})`;
  throw invalidFile(path, `the folder has ${files.length} .safetensors files and ${missing}`);
}

function onlyOne(names: readonly string[]): string | undefined {
  return names.length === 1 ? names[0] : undefined;
}

/** True for a file that names no variant and is no part of a larger model. */
function isDefaultFile(name: string): boolean {
  return /^[^.]+\.safetensors$/.test(name) && !/-\d+-of-\d+\./.test(name);
}

/** True if all other names are those of variants: `x.fp16.safetensors` beside `x.safetensors`. */
function areVariantsOf(file: string, names: readonly string[]): boolean {
  const stem = file.slice(0, -".safetensors".length);
  return names.every((name) => name === file || name.startsWith(`${stem}.`) || isPart(stem, name));
}

/** True for a file of a variant in several files: `x-00001-of-00002.fp16.safetensors`. */
function isPart(stem: string, name: string): boolean {
  return name.startsWith(`${stem}-`) && /-\d+-of-\d+\.[^.]+\.safetensors$/.test(name);
}

async function namesIn(path: string): Promise<string[]> {
  try {
    const names = await readdir(path);
    return names.filter((name) => !name.startsWith(".")).sort();
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(path)}`, error);
  }
}

/** @throws INVALID_FILE, LIMIT_EXCEEDED */
export async function readShardIndex(folder: ShardFolder, name: string): Promise<ShardIndex> {
  const fileName = join(folder.path, name);
  const file = await openInFolder(folder, name);
  try {
    const byteLength = await fileByteLength(file, fileName);
    if (byteLength > limits.shardIndexBytesMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot read ${JSON.stringify(fileName)}: it has ${byteLength} bytes, ` +
          "the limit (shardIndexBytesMax) is " +
          `${limits.shardIndexBytesMax}`,
      );
    }
    return parseShardIndex(
      await readPiece(file, { fileName, byteOffset: 0, byteLength }),
      fileName,
    );
  } finally {
    await file.close();
  }
}

/**
 * Opens a file of the folder for reading. It follows links inside the folder, and to the blobs of a
 * Hugging Face cache; to other folders only if the caller allowed it.
 * @throws INVALID_FILE if the file is missing, not an ordinary file, or outside the folder
 */
export async function openInFolder(
  { path, roots }: ShardFolder,
  name: string,
): Promise<FileHandle> {
  const fileName = join(path, name);
  if (roots === undefined) return openSourceFile(fileName);
  try {
    await using held = await holdPath(fileName);
    refuseOutside(held.real, roots, fileName);
    // WHY not its path again: a link may have taken the place of the file or of a folder above it.
    return await openSourceFile(held.path, fileName);
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(fileName)}`, error);
  }
}

function refuseOutside(real: string, roots: readonly string[], fileName: string): void {
  if (roots.some((root) => real.startsWith(root === sep ? sep : root + sep))) return;
  throw new CudaIpcError(
    "INVALID_FILE",
    `Cannot read ${JSON.stringify(fileName)}: ` +
      `it is a link out of its folder, to ${JSON.stringify(real)}`,
    { remedy: "If you trust the folder, pass `allowLinks: true` (in commands: --allow-links)." },
  );
}
