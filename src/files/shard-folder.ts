/** A folder of safetensors files: finds its index, and opens only files inside the folder. */
import { type FileHandle, readdir, realpath } from "node:fs/promises";
import { basename, dirname, join, sep } from "node:path";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { fileSystemError, invalidFile } from "./file-errors.js";
import { parseShardIndex, type ShardIndex, shardIndexEnd, shardIndexName } from "./shard-index.js";
import { fileByteLength, openSourceFile, readPiece } from "./source-file.js";

export interface ShardFolder {
  /** As the caller wrote it, for messages. */
  readonly path: string;
  /** The folders where files may be: this one, and the blobs of a Hugging Face cache. */
  readonly roots: readonly string[];
}

export async function openShardFolder(path: string): Promise<ShardFolder> {
  try {
    const real = await realpath(path);
    return { path, roots: [real, ...cacheRoots(real)] };
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(path)}`, error);
  }
}

/**
 * The Hugging Face cache has links in `models--X/snapshots/REVISION` to files in `models--X/blobs`.
 */
function cacheRoots(folder: string): string[] {
  const snapshots = dirname(folder);
  return basename(snapshots) === "snapshots" ? [join(dirname(snapshots), "blobs")] : [];
}

export interface FolderContent {
  /** Undefined if there is only one file. */
  readonly index: string | undefined;
  /** The one file if there is no index. */
  readonly file: string | undefined;
}

/**
 * Finds what to load: the folder's index, or its only safetensors file.
 * @throws INVALID_FILE if there is neither
 */
export async function findContent({ path }: ShardFolder): Promise<FolderContent> {
  const names = await namesIn(path);
  if (names.includes(shardIndexName)) return { index: shardIndexName, file: undefined };
  const indexes = names.filter((name) => name.endsWith(shardIndexEnd));
  const files = names.filter((name) => name.endsWith(".safetensors"));
  const [index, secondIndex] = indexes;
  if (index !== undefined && secondIndex === undefined) return { index, file: undefined };
  if (index !== undefined) {
    throw invalidFile(
      path,
      `the folder has ${indexes.length} indexes (${index}, ${secondIndex}, ...); name one of them`,
    );
  }
  const [file] = files;
  if (file === undefined) throw invalidFile(path, "the folder has no .safetensors file");
  if (files.length === 1) return { index: undefined, file };
  const missing = `no index that says which belong together (${shardIndexName})`;
  throw invalidFile(path, `the folder has ${files.length} .safetensors files and ${missing}`);
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
 * Hugging Face cache.
 * @throws INVALID_FILE if the file is missing, not an ordinary file, or outside the folder
 */
export async function openInFolder(
  { path, roots }: ShardFolder,
  name: string,
): Promise<FileHandle> {
  const fileName = join(path, name);
  let real: string;
  try {
    real = await realpath(fileName);
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(fileName)}`, error);
  }
  if (!roots.some((root) => real.startsWith(root === sep ? sep : root + sep))) {
    throw invalidFile(fileName, `it is a link out of its folder, to ${JSON.stringify(real)}`);
  }
  // WHY the real path and no links: a link that replaces the file meanwhile was not checked.
  return openSourceFile(real, { followLink: false });
}
