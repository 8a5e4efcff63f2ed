/**
 * Documents in files: written so that a file is never seen half, for this user alone; read once it is there, and refused where
 * anybody else could have written it or where its exporter is gone.
 */
import { randomBytes } from "node:crypto";
import { constants, type Stats } from "node:fs";
import { type FileHandle, open, rename, unlink, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError, hasCode, messageOf, SystemError } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { checkOneOf } from "../base/one-of.js";
import { ownUid } from "../os/runtime-folder.js";
import { fromNodeError } from "../os/system-error.js";
import { parseSharedDocument, type SharedDocument } from "../wire/shared-document.js";
import { checkExporter } from "./fetch-fds.js";
import { FileWatch } from "./file-watch.js";
import { Shared } from "./share.js";

const OTHERS_MAY_WRITE = 0o022;

/**
 * Writes the document of something shared to a file (0600), replacing what is there in one step. The file stays when the sharing
 * ends; who reads it then is told so.
 * @throws PERMISSION_DENIED, DISK_FULL, SYSTEM_ERROR; INVALID_DESCRIPTOR for what is no document
 */
export async function writeHandleFile(path: string, source: SharedDocument | Shared): Promise<void> {
  const document = source instanceof Shared ? source.document : source;
  const text = `${JSON.stringify(parseSharedDocument("the document to be written", document), undefined, 2)}\n`;
  const target = resolve(path);
  const temporary = join(dirname(target), `.${basename(target)}.${randomBytes(6).toString("hex")}.tmp`);
  try {
    await writeFile(temporary, text, { mode: 0o600, flag: "wx" });
    await rename(temporary, target);
  } catch (error) {
    await unlink(temporary).catch(() => {
      // It was not made, or the rename took it: what is thrown is what went wrong first.
    });
    throw fromNodeError(`write handle file ${path}`, error);
  }
}

export interface ReadHandleFileOptions extends WaitOptions {
  /**
   * A file whose exporter is gone, or that is of another boot: `refuse` it at once (the default), or `wait` for a fresh one to
   * take its place.
   */
  readonly stale?: "refuse" | "wait" | undefined;
}

/**
 * The document in a file, which is waited for where it is not there yet.
 * @throws TIMEOUT where no such file comes in time, PEER_GONE, STALE_HANDLE, UNTRUSTED_PEER for a file of another user,
 * UNSAFE_RUNTIME_DIR for one that others may write to, INVALID_DESCRIPTOR, ABORTED
 */
export async function readHandleFile(path: string, options: ReadHandleFileOptions = {}): Promise<SharedDocument> {
  const stale = checkOneOf("stale", options.stale ?? "refuse", ["refuse", "wait"]);
  const deadline = new Deadline(`read handle file ${path}`, options, defaults.peerTimeoutMs);
  let found: unknown;
  // WHY watched before the first look: a file that comes in between is not missed.
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
      throw new CudaIpcError("TIMEOUT", `${error.message}; at last: ${why}`, { cause: found });
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
    throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot read handle file ${path}: it is not JSON`, { cause });
  }
  const document = parseSharedDocument(`handle file ${path}`, value);
  checkExporter(`use handle file ${path}`, document);
  return document;
}

async function readTrusted(path: string): Promise<string> {
  try {
    // WHY not blocking: opening a pipe would wait for its writer.
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

/** WHY the open file is asked and not the path: that could be another one by now. */
function checkTrusted(path: string, stats: Stats): void {
  const refuse = (found: string) => `Cannot trust handle file ${path}: ${found}`;
  if (!stats.isFile()) throw new CudaIpcError("INVALID_DESCRIPTOR", refuse("it is not a plain file"));
  if (stats.uid !== ownUid()) {
    const found = `it belongs to user ${stats.uid}, wanted user ${ownUid()}`;
    throw new CudaIpcError("UNTRUSTED_PEER", refuse(found));
  }
  const mode = stats.mode & 0o777;
  if ((mode & OTHERS_MAY_WRITE) === 0) return;
  const found = `others may write to it (mode 0${mode.toString(8)}), wanted 0600`;
  throw new CudaIpcError("UNSAFE_RUNTIME_DIR", refuse(found));
}

async function readText(path: string, file: FileHandle): Promise<string> {
  const bytes = Buffer.alloc(limits.handleFileBytesMax + 1);
  let byteLength = 0;
  for (;;) {
    const { bytesRead } = await file.read(bytes, byteLength, bytes.byteLength - byteLength, byteLength);
    if (bytesRead === 0) return bytes.toString("utf8", 0, byteLength);
    byteLength += bytesRead;
    if (byteLength <= limits.handleFileBytesMax) continue;
    const message = `Cannot read handle file ${path}: over ${limits.handleFileBytesMax} bytes (handleFileBytesMax)`;
    throw new CudaIpcError("INVALID_DESCRIPTOR", message);
  }
}
