/**
 * Writes and reads documents and bare handles in files. A file replaces the old one in one step,
 * and only this user can read it. A reader waits for a missing file. It refuses a file that another
 * user could have written, and one whose exporter is gone.
 */
import { randomBytes } from "node:crypto";
import type { Stats } from "node:fs";
import { type FileHandle, open, rename, unlink, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import type { DType } from "../array/dtype.js";
import { checkLayout, contiguousStrides } from "../array/layout.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError, hasCode, messageOf, SystemError } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { aString, oneOf, optionsOf, waitChecks } from "../base/option-checks.js";
import { IpcArrayHandle } from "../gpu/arrays/ipc-array-handle.js";
import { type RawHandleOptions, rawArrayChecks } from "../gpu/arrays/open-ipc-handle.js";
import { behindLinks, holdFolder } from "../os/behind-links.js";
import { fromNodeError } from "../os/system-error.js";
import { distrustOf, TRUSTED_READ } from "../os/trusted-file.js";
import {
  type ArrayHandleDocument,
  decodeHandle,
  encodeHandle,
  HANDLE_BYTES,
  IPC_DOCUMENT_VERSION,
  type RawHandleDocument,
} from "../wire/ipc-documents.js";
import { parseSharedDocument, type SharedDocument } from "../wire/shared-document.js";
import { checkExporter } from "./fetch-fds.js";
import { FileWatch } from "./file-watch.js";
import { Shared } from "./share.js";

export interface WriteHandleFileOptions {
  /**
   * `json` (the default) writes the document. `raw` writes only the 64 bytes of the handle of an
   * array, as CUDA's samples do (cudaIpcMemHandle_t). They do not say where in its block an array
   * begins: hand over whole arrays, or tell the reader the `byteOffset` of a slice.
   */
  readonly format?: "json" | "raw" | undefined;
}

const checkWrite = optionsOf<WriteHandleFileOptions>("writeHandleFile()", {
  format: oneOf("json", "raw"),
});

/**
 * Writes the document of a shared object to a file with mode 0600. It replaces an existing file in
 * one step. The file stays when sharing ends, and reading it then throws.
 * @throws INVALID_DESCRIPTOR if `source` is not a document
 * @throws WRONG_KIND if the format is `raw` and `source` is not the handle of an array
 * @throws PERMISSION_DENIED, DISK_FULL, SYSTEM_ERROR
 */
export async function writeHandleFile(
  path: string,
  source: SharedDocument | Shared | IpcArrayHandle<ArrayHandleDocument | RawHandleDocument>,
  options: WriteHandleFileOptions = {},
): Promise<void> {
  aString("path", path);
  checkWrite(options);
  const document =
    source instanceof Shared || source instanceof IpcArrayHandle ? source.toJSON() : source;
  const parsed = parseSharedDocument("the document to write", document);
  const content = options.format === "raw" ? handleIn(path, parsed) : jsonOf(parsed);
  const named = resolve(path);
  try {
    await using folder = await holdFolder(await behindLinks(dirname(named)));
    const name = basename(named);
    const temporary = join(folder.path, `.${name}.${randomBytes(6).toString("hex")}.tmp`);
    try {
      await writeFile(temporary, content, { mode: 0o600, flag: "wx" });
      await rename(temporary, join(folder.path, name));
    } catch (error) {
      await unlink(temporary).catch(() => {
        // The file was not created or is renamed already. The first error is thrown.
      });
      throw error;
    }
  } catch (error) {
    throw fromNodeError(`write handle file ${path}`, error);
  }
}

function jsonOf(document: SharedDocument): string {
  return `${JSON.stringify(document, undefined, 2)}\n`;
}

function handleIn(path: string, document: SharedDocument): Uint8Array {
  if (document.kind === "array-handle" || document.kind === "raw-handle")
    return decodeHandle(document.handle);
  const found = `kind "${document.kind}" has none. Pass IpcArrayHandle.of(array)`;
  const attempt = `Cannot write a handle of ${HANDLE_BYTES} bytes to ${path}`;
  throw new CudaIpcError("WRONG_KIND", `${attempt}: ${found}.`);
}

export interface ReadHandleFileOptions extends WaitOptions {
  /** `json` by default. */
  readonly format?: "json" | undefined;
  /**
   * What to do with a file whose exporter is gone or that is of another boot. `refuse` (the
   * default) throws at once. `wait` waits until a new file replaces it.
   */
  readonly stale?: "refuse" | "wait" | undefined;
}

/** The handle does not say what lies behind it, so the reader does. */
export interface ReadRawHandleFileOptions
  extends Omit<ReadHandleFileOptions, "format">,
    Pick<RawHandleOptions<DType>, "dtype" | "shape" | "strides" | "byteOffset"> {
  readonly format: "raw";
}

const readChecks = {
  ...waitChecks,
  format: oneOf("json", "raw"),
  stale: oneOf("refuse", "wait"),
} as const;

const checkRead = optionsOf<ReadHandleFileOptions>("readHandleFile()", readChecks);

const checkReadRaw = optionsOf<ReadRawHandleFileOptions>(
  "readHandleFile()",
  { ...readChecks, ...rawArrayChecks },
  { needs: ["dtype", "shape"], such: '{ format: "raw", dtype: "float32", shape: [2, 3] }' },
);

/** How the bytes of a file are read. */
interface Form {
  readonly byteLengthMax: number;
  /** @throws Unfinished for a file that its writer may still be writing */
  parse(bytes: Buffer): SharedDocument;
}

/**
 * Reads the document in a file. Waits for the file if it does not exist yet.
 *
 * With `format: "raw"` the file is a bare handle of 64 bytes. A shorter file is waited for, because
 * its writer may still be writing it. `openShared` and `IpcArrayHandle.from` take the result.
 * @throws TIMEOUT if no usable file appears in time
 * @throws UNTRUSTED_PEER if the file belongs to another user
 * @throws UNSAFE_RUNTIME_DIR if other users may write to the file
 * @throws INVALID_FILE if a raw file has over 64 bytes
 * @throws PEER_GONE, STALE_HANDLE, INVALID_DESCRIPTOR, ABORTED
 */
export function readHandleFile(
  path: string,
  options: ReadRawHandleFileOptions,
): Promise<RawHandleDocument>;
export function readHandleFile(
  path: string,
  options?: ReadHandleFileOptions,
): Promise<SharedDocument>;
export async function readHandleFile(
  path: string,
  options: ReadHandleFileOptions | ReadRawHandleFileOptions = {},
): Promise<SharedDocument> {
  aString("path", path);
  const form = options.format === "raw" ? rawForm(path, options) : jsonForm(path, options);
  const { stale } = options;
  const deadline = new Deadline(`read handle file ${path}`, options, defaults.peerTimeoutMs);
  let found: unknown;
  // The watch starts before the first read, so that no file is missed in between.
  using watch = new FileWatch(resolve(path));
  for (;;) {
    if (deadline.signal?.aborted) throw deadline.aborted();
    try {
      return await readOnce(path, form);
    } catch (error) {
      if (!isWaitedFor(error, stale)) throw error;
      found = error;
    }
    try {
      await watch.next(deadline);
    } catch (error) {
      if (!hasCode(error, "TIMEOUT")) throw error;
      const why = messageOf(found);
      throw new CudaIpcError("TIMEOUT", `${error.message}; last error: ${why}`, { cause: found });
    }
  }
}

/** A file that is shorter than it will be. */
class Unfinished extends CudaIpcError {}

function isWaitedFor(error: unknown, stale: ReadHandleFileOptions["stale"]): boolean {
  if (error instanceof SystemError) return error.errnoName === "ENOENT";
  if (error instanceof Unfinished) return true;
  return stale === "wait" && (hasCode(error, "PEER_GONE") || hasCode(error, "STALE_HANDLE"));
}

async function readOnce(path: string, form: Form): Promise<SharedDocument> {
  const document = form.parse(await readTrusted(path, form.byteLengthMax));
  checkExporter(`use handle file ${path}`, document);
  return document;
}

function jsonForm(path: string, options: ReadHandleFileOptions): Form {
  checkRead(options);
  const refuse = (found: string, cause?: unknown) =>
    new CudaIpcError("INVALID_DESCRIPTOR", `Cannot read handle file ${path}: ${found}`, { cause });
  const byteLengthMax = limits.handleFileBytesMax;
  const parse = (bytes: Buffer) => {
    if (bytes.byteLength > byteLengthMax)
      throw refuse(`it has over ${byteLengthMax} bytes (handleFileBytesMax)`);
    let value: unknown;
    try {
      value = JSON.parse(bytes.toString());
    } catch (cause) {
      throw refuse("it is not JSON", cause);
    }
    return parseSharedDocument(`handle file ${path}`, value);
  };
  return { byteLengthMax, parse };
}

function rawForm(path: string, options: ReadRawHandleFileOptions): Form {
  checkReadRaw(options);
  const { dtype, shape, byteOffset = 0, strides = contiguousStrides(shape) } = options;
  const array = { dtype, shape: [...shape], strides: [...strides], byteOffset };
  // The size of the block is known when it is opened.
  checkLayout(array, Number.MAX_SAFE_INTEGER);
  const head = { format: "cuda-ipc", version: IPC_DOCUMENT_VERSION, kind: "raw-handle" } as const;
  const parse = (bytes: Buffer): RawHandleDocument => {
    const { byteLength } = bytes;
    if (byteLength === HANDLE_BYTES) return { ...head, handle: encodeHandle(bytes), array };
    const found = byteLength < HANDLE_BYTES ? `it has ${byteLength} bytes` : "it has more bytes";
    const message = `Cannot read handle file ${path}: ${found}, wanted ${HANDLE_BYTES}`;
    throw new (byteLength < HANDLE_BYTES ? Unfinished : CudaIpcError)("INVALID_FILE", message);
  };
  return { byteLengthMax: HANDLE_BYTES, parse };
}

async function readTrusted(path: string, byteLengthMax: number): Promise<Buffer> {
  try {
    const file = await open(path, TRUSTED_READ);
    try {
      checkTrusted(path, await file.stat());
      return await readBytes(file, byteLengthMax + 1);
    } finally {
      await file.close();
    }
  } catch (error) {
    throw fromNodeError(`read handle file ${path}`, error);
  }
}

function checkTrusted(path: string, stats: Stats): void {
  const distrust = distrustOf(stats);
  if (distrust === undefined) return;
  const code = UNTRUSTED[distrust.about];
  throw new CudaIpcError(code, `Cannot trust handle file ${path}: ${distrust.found}`);
}

const UNTRUSTED = {
  type: "INVALID_DESCRIPTOR",
  owner: "UNTRUSTED_PEER",
  mode: "UNSAFE_RUNTIME_DIR",
} as const;

/** Reads the first bytes of a file, or all if it has fewer. */
async function readBytes(file: FileHandle, byteLengthMax: number): Promise<Buffer> {
  const bytes = Buffer.alloc(byteLengthMax);
  let byteLength = 0;
  while (byteLength < byteLengthMax) {
    const rest = byteLengthMax - byteLength;
    const { bytesRead } = await file.read(bytes, byteLength, rest, byteLength);
    if (bytesRead === 0) break;
    byteLength += bytesRead;
  }
  return bytes.subarray(0, byteLength);
}
