/**
 * The files to load: one file, or all files of a folder. They stay open until the memory is filled.
 */
import { type FileHandle, stat } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import type { DeviceBuffer } from "../gpu/memory/device-buffer.js";
import { readFileInto } from "../gpu/transfer/file-transfer.js";
import { fileSystemError, invalidFile } from "./file-errors.js";
import { detectFileFormat, type FileFormat, formatOfFile } from "./file-format.js";
import {
  type LoadPlan,
  planBundle,
  planNpy,
  planRaw,
  type RawOptions,
  type ReadShard,
} from "./load-plan.js";
import { readNpyHeader } from "./npy-header.js";
import { readSafetensorsHeader } from "./safetensors-header.js";
import {
  findContent,
  openInFolder,
  openShardFolder,
  readShardIndex,
  type ShardFolder,
} from "./shard-folder.js";
import { isShardIndexName } from "./shard-index.js";
import { fileByteLength, openSourceFile } from "./source-file.js";

interface SourceOptions extends RawOptions {
  readonly format?: FileFormat | undefined;
  /** Whether files of a folder may be links that lead out of it. */
  readonly allowLinks?: boolean | undefined;
}

export type OnFileProgress = (progress: {
  readonly doneBytes: number;
  readonly totalBytes: number;
}) => void;

interface OpenFile {
  readonly file: FileHandle;
  readonly fileName: string;
}

/** The format that `LoadSource.open` uses for a path. A folder or a shard index is safetensors. */
export async function detectSourceFormat(path: string): Promise<FileFormat> {
  if (isShardIndexName(path) || (await isFolder(path))) return "safetensors";
  return detectFileFormat(path);
}

export class LoadSource {
  readonly plan: LoadPlan;
  readonly #files: readonly OpenFile[];

  private constructor(plan: LoadPlan, files: readonly OpenFile[]) {
    this.plan = plan;
    this.#files = files;
  }

  /**
   * Opens a file, a folder or the index of a folder, and reads the headers.
   * @throws INVALID_FILE, UNSUPPORTED_DTYPE, PERMISSION_DENIED, LIMIT_EXCEEDED; TypeError if
   * `dtype` or `shape` is given for a file that has its own
   */
  static async open(path: string, options: SourceOptions): Promise<LoadSource> {
    const files: OpenFile[] = [];
    try {
      const plan =
        (await planFolder(path, options, files)) ?? (await planFile(path, options, files));
      return new LoadSource(plan, files);
    } catch (error) {
      await closeAll(files);
      throw error;
    }
  }

  /** Reads the elements into a buffer of `plan.byteLength` bytes. */
  async fill(
    buffer: DeviceBuffer,
    deadline: Deadline,
    onProgress: OnFileProgress = () => {},
  ): Promise<void> {
    const { moves } = this.plan;
    const totalBytes = moves.reduce((sum, move) => sum + move.byteLength, 0);
    onProgress({ doneBytes: 0, totalBytes });
    let before = 0;
    for (const { file, fileByteOffset, memoryByteOffset, byteLength } of moves) {
      const source = this.#files[file];
      if (source === undefined) throw new TypeError(`no file ${file}`);
      const section = { ...source, byteOffset: fileByteOffset, byteLength };
      const onPiece = (done: number) => onProgress({ doneBytes: before + done, totalBytes });
      await readFileInto(buffer, memoryByteOffset, section, {
        ...deadline.rest(),
        onProgress: onPiece,
      });
      before += byteLength;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await closeAll(this.#files);
  }
}

/**
 * Undefined if the path is neither a folder nor an index. Adds every opened file to `files`, also
 * if it then throws.
 */
async function planFolder(
  path: string,
  options: SourceOptions,
  files: OpenFile[],
): Promise<LoadPlan | undefined> {
  const isIndex = isShardIndexName(path);
  if (!(await isFolder(path)) && !(isIndex && (options.format ?? "safetensors") === "safetensors"))
    return undefined;
  if (options.format !== undefined && options.format !== "safetensors") {
    throw invalidFile(path, `it is a folder, which holds no ${options.format} file`);
  }
  checkRawOptions(path, "safetensors", options);
  if (isIndex) {
    return planIndexed(await openShardFolder(dirname(path), options), basename(path), files);
  }
  const folder = await openShardFolder(path, options);
  const { index, file } = await findContent(folder);
  if (index !== undefined) return planIndexed(folder, index, files);
  return planBundle([await openShard(folder, file ?? "", files)]);
}

async function planFile(
  path: string,
  options: SourceOptions,
  files: OpenFile[],
): Promise<LoadPlan> {
  const file = await openSourceFile(path);
  files.push({ file, fileName: path });
  const format = options.format ?? (await formatOfFile(file, path));
  checkRawOptions(path, format, options);
  return planners[format](file, path, options);
}

type Planner = (file: FileHandle, path: string, options: RawOptions) => Promise<LoadPlan>;

/** Reads which arrays a file has. Only raw bytes need the options. */
const planners: Readonly<Record<FileFormat, Planner>> = {
  npy: async (file, path) => planNpy(await readNpyHeader(file, path)),
  safetensors: async (file, path) =>
    planBundle([{ fileName: path, header: await readSafetensorsHeader(file, path) }]),
  raw: async (file, path, options) =>
    planRaw({ fileName: path, byteLength: await fileByteLength(file, path) }, options),
};

function checkRawOptions(path: string, format: FileFormat, { dtype, shape }: RawOptions): void {
  if (format === "raw" || (dtype === undefined && shape === undefined)) return;
  throw new TypeError(
    `dtype and shape are for raw bytes, and ${JSON.stringify(path)} tells its own (${format})`,
  );
}

async function planIndexed(
  folder: ShardFolder,
  indexName: string,
  files: OpenFile[],
): Promise<LoadPlan> {
  const index = await readShardIndex(folder, indexName);
  const shards: ReadShard[] = [];
  let headerBytes = 0;
  let arrayCount = 0;
  for (const [name, wanted] of index) {
    const shard = await openShard(folder, name, files);
    checkHas(shard, wanted, join(folder.path, indexName));
    headerBytes += shard.header.dataByteOffset;
    arrayCount += shard.header.arrays.length;
    checkLimit(folder, "arrays", arrayCount, "bundleArraysMax");
    checkLimit(folder, "bytes of headers", headerBytes, "safetensorsHeaderBytesMax");
    shards.push(shard);
  }
  return planBundle(shards);
}

async function openShard(folder: ShardFolder, name: string, files: OpenFile[]): Promise<ReadShard> {
  const fileName = join(folder.path, name);
  const file = await openInFolder(folder, name);
  files.push({ file, fileName });
  return { fileName, header: await readSafetensorsHeader(file, fileName) };
}

/** More arrays than the index names are fine: the Hugging Face libraries load them too. */
function checkHas(
  { fileName, header }: ReadShard,
  wanted: readonly string[],
  indexName: string,
): void {
  const found = new Set(header.arrays.map(({ name }) => name));
  const missing = wanted.find((name) => !found.has(name));
  if (missing === undefined) return;
  const text = JSON.stringify(missing.length > 200 ? `${missing.slice(0, 200)}...` : missing);
  throw invalidFile(
    fileName,
    `it has no array ${text}, which ${JSON.stringify(indexName)} says is there`,
  );
}

/**
 * Checked while reading, because many large headers could fill the memory before the bundle is
 * refused.
 */
function checkLimit(
  { path }: ShardFolder,
  what: string,
  count: number,
  limit: "bundleArraysMax" | "safetensorsHeaderBytesMax",
): void {
  if (count <= limits[limit]) return;
  throw new CudaIpcError(
    "LIMIT_EXCEEDED",
    `Cannot read ${JSON.stringify(path)}: its files have ${count} ${what}, ` +
      `the limit (${limit}) is ${limits[limit]}`,
  );
}

async function isFolder(path: string): Promise<boolean> {
  try {
    return (await stat(path)).isDirectory();
  } catch (error) {
    throw fileSystemError(`read ${JSON.stringify(path)}`, error);
  }
}

async function closeAll(files: readonly OpenFile[]): Promise<void> {
  await Promise.all(files.map(({ file }) => file.close()));
}
