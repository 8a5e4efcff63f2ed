/**
 * Writes and reads documents in files. A file replaces the old one in one step, and only this user
 * can read it. A reader waits for a missing file. It refuses a file that another user could have
 * written, and one whose exporter is gone.
 */
import { randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { type FileHandle, open, rename, unlink, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError, hasCode, messageOf, SystemError } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { checkOneOf } from "../base/option-checks.js";
import { ownUid } from "../os/runtime-folder.js";
import { fromNodeError } from "../os/system-error.js";
import { parseSharedDocument, type SharedDocument } from "../wire/shared-document.js";
import { checkExporter } from "./fetch-fds.js";
import { FileWatch } from "./file-watch.js";
import { Shared } from "./share.js";

const OTHERS_MAY_WRITE = 0o022;

/**
 * Writes the document of a shared object to a file with mode 0600. It replaces an existing file in
 * one step. The file stays when sharing ends, and reading it then throws.
 * @throws INVALID_DESCRIPTOR if `source` is not a document
 * @throws PERMISSION_DENIED, DISK_FULL, SYSTEM_ERROR
 */
export async function writeHandleFile(
  path: string,
  source: SharedDocument | Shared,
): Promise<void> {
  const document = source instanceof Shared ? source.document : source;
  const parsed = parseSharedDocument("the document to write", document);
  const text = `${JSON.stringify(parsed, undefined, 2)}\n`;
  const target = resolve(path);
  const temporary = join(
    dirname(target),
    `.${basename(target)}.${randomBytes(6).toString("hex")}.tmp`,
  );
  try {
    await writeFile(temporary, text, { mode: 0o600, flag: "wx" });
    await rename(temporary, target);
  } catch (error) {
    await unlink(temporary).catch(() => {
      // The file was not created or is renamed already. The first error is thrown.
    });
    throw fromNodeError(`write handle file ${path}`, error);
  }
}

export interface ReadHandleFileOptions extends WaitOptions {
  /**
   * What to do with a file whose exporter is gone or that is of another boot. `refuse` (the
   * default) throws at once. `wait` waits until a new file replaces it.
   */
  readonly stale?: "refuse" | "wait" | undefined;
}

/**
 * Reads the document in a file. Waits for the file if it does not exist yet.
 * @throws TIMEOUT if no usable file appears in time
 * @throws UNTRUSTED_PEER if the file belongs to another user
 * @throws UNSAFE_RUNTIME_DIR if other users may write to the file
 * @throws PEER_GONE, STALE_HANDLE, INVALID_DESCRIPTOR, ABORTED
 */
export async function readHandleFile(
  path: string,
  options: ReadHandleFileOptions = {},
): Promise<SharedDocument> {
  const stale = checkOneOf("stale", options.stale ?? "refuse", ["refuse", "wait"]);
  const deadline = new Deadline(`read handle file ${path}`, options, defaults.peerTimeoutMs);
  let found: unknown;
  // The watch starts before the first read, so that no file is missed in between.
  using watch = new FileWatch(resolve(path));
  for (;;) {
    if (deadline.signal?.aborted) throw deadline.aborted();
    try {
      return await readOnce(path);
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

function isWaitedFor(error: unknown, stale: "refuse" | "wait"): boolean {
  if (error instanceof SystemError) return error.errnoName === "ENOENT";
  return stale === "wait" && (hasCode(error, "PEER_GONE") || hasCode(error, "STALE_HANDLE"));
}

async function readOnce(path: string): Promise<SharedDocument> {
  const text = await readTrusted(path);
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw new CudaIpcError(
      "INVALID_DESCRIPTOR",
      `Cannot read handle file ${path}: it is not JSON`,
      { cause },
    );
  }
  const document = parseSharedDocument(`handle file ${path}`, value);
  checkExporter(`use handle file ${path}`, document);
  return document;
}

async function readTrusted(path: string): Promise<string> {
  try {
    // Not blocking, because opening a pipe would wait for its writer.
    const file = await open(path, constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY);
    try {
      checkTrusted(path, await file.stat());
      return await readText(path, file);
    } finally {
      await file.close();
    }
  } catch (error) {
    throw fromNodeError(`read handle file ${path}`, error);
  }
}

/** Checks the open file and not the path, which can name another file by now. */
function checkTrusted(path: string, stats: Stats): void {
  const refuse = (found: string) => `Cannot trust handle file ${path}: ${found}`;
  if (!stats.isFile())
    throw new CudaIpcError("INVALID_DESCRIPTOR", refuse("it is not a plain file"));
  if (stats.uid !== ownUid()) {
    const found = `it belongs to user ${stats.uid}, wanted user ${ownUid()}`;
    throw new CudaIpcError("UNTRUSTED_PEER", refuse(found));
  }
  const mode = stats.mode & 0o777;
  if ((mode & OTHERS_MAY_WRITE) === 0) return;
  const found = `other users may write to it (mode 0${mode.toString(8)}). Use mode 0600.`;
  throw new CudaIpcError("UNSAFE_RUNTIME_DIR", refuse(found));
}

async function readText(path: string, file: FileHandle): Promise<string> {
  const bytes = Buffer.alloc(limits.handleFileBytesMax + 1);
  let byteLength = 0;
  for (;;) {
    const { bytesRead } = await file.read(
      bytes,
      byteLength,
      bytes.byteLength - byteLength,
      byteLength,
    );
    if (bytesRead === 0) return bytes.toString("utf8", 0, byteLength);
    byteLength += bytesRead;
    if (byteLength <= limits.handleFileBytesMax) continue;
    const found = `it has over ${limits.handleFileBytesMax} bytes (handleFileBytesMax)`;
    throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot read handle file ${path}: ${found}`);
  }
}
