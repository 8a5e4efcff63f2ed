/**
 * Files that this user's processes keep at a known path: a lock, a journal, a log. Anything else may lie there instead, and
 * opening it must neither wait (a FIFO), nor follow a link, nor use a file of another user.
 */
import { constants, lstatSync, type Stats } from "node:fs";
import { CudaIpcError, SystemError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { statFile } from "./file-calls.js";
import { openFile } from "./open-file.js";
import type { OwnedFd } from "./owned-fd.js";
import { ownUid } from "./runtime-folder.js";
import { fromNodeError } from "./system-error.js";

const { S_IFMT, S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFSOCK } = constants;

/**
 * Opens the file for reading and writing, and makes it (0600) if it is missing. The caller owns the descriptor.
 * @throws PERMISSION_DENIED if something else than a plain file of this user is there
 */
export function openOwnFile(path: string, use: "own" | "own-append" = "own"): OwnedFd {
  return acquireIn((scope) => {
    const fd = scope.own(tryOpen(path, use), (fd) => fd.close());
    const { mode, uid } = statFile(fd);
    const found = strangeness(Number(mode), Number(uid));
    if (found !== undefined) throw refusal(path, found);
    return fd;
  });
}

/** Whether this path still leads to this open file. */
export function isAt(path: string, fd: OwnedFd): boolean {
  const { ino, dev } = statFile(fd);
  try {
    const named = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    return named?.ino === ino && named.dev === dev;
  } catch (error) {
    throw fromNodeError(`look at ${path}`, error);
  }
}

function tryOpen(path: string, use: "own" | "own-append"): OwnedFd {
  try {
    return openFile(path, use);
  } catch (error) {
    const stats = error instanceof SystemError ? look(path) : undefined;
    const found = stats === undefined ? undefined : strangeness(stats.mode, stats.uid);
    throw found === undefined ? error : refusal(path, found, error);
  }
}

function look(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    // What cannot be looked at is described by the error of the open.
    return undefined;
  }
}

/** What is odd about it; undefined for a plain file of this user. */
function strangeness(mode: number, uid: number): string | undefined {
  const kind = kinds.get(mode & S_IFMT) ?? "a device";
  if (kind !== "a file") return `it is ${kind} and not a plain file`;
  return uid === ownUid() ? undefined : `it belongs to user ${uid}`;
}

const kinds = new Map([
  [S_IFREG, "a file"],
  [S_IFDIR, "a folder"],
  [S_IFLNK, "a symbolic link"],
  [S_IFIFO, "a FIFO"],
  [S_IFSOCK, "a socket"],
]);

function refusal(path: string, found: string, cause?: unknown): CudaIpcError {
  return new CudaIpcError("PERMISSION_DENIED", `Cannot use "${path}": ${found}. Remove it and try again.`, { cause });
}
