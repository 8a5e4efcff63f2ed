/** A lock that the kernel gives back when its holder dies (flock): decides which of several starting hubs is the one. */
import { ftruncateSync } from "node:fs";
import { lastErrno, libc } from "../ffi/libc.js";
import { readFilePart, writeFilePart } from "./file-calls.js";
import { openFile } from "./open-file.js";
import { isAt, openOwnFile } from "./own-file.js";
import type { OwnedFd } from "./owned-fd.js";
import { errnos, systemError } from "./system-error.js";

const LOCK_SH = 1;
const LOCK_EX = 2;
const LOCK_NB = 4;
const LOCK_UN = 8;

/** Whether this open file is the one at the path, and has the lock, which is taken if nobody has it. The descriptor stays the caller's. */
export function isLocked(fd: OwnedFd, path: string): boolean {
  return isAt(path, fd) && tryLock(fd);
}

/**
 * Gives the lock up at once. WHY not by closing alone: it belongs to the open file, of which another process may have a descriptor.
 */
export function unlockFile(fd: OwnedFd): void {
  if (libc().flock(fd.number, LOCK_UN) < 0) throw systemError("unlock a file", "flock");
}

/** Whether this open file has the lock now. The descriptor stays the caller's. */
export function tryLock(fd: OwnedFd): boolean {
  if (libc().flock(fd.number, LOCK_EX | LOCK_NB) === 0) return true;
  const errno = lastErrno();
  if (errno === errnos.EAGAIN) return false;
  throw systemError("lock a file", "flock", errno);
}

/**
 * The lock on this file, held until the descriptor is closed; undefined if another process holds it.
 * @throws PERMISSION_DENIED if something else than a plain file of this user is there
 */
export function tryLockFile(path: string): OwnedFd | undefined {
  const fd = openOwnFile(path);
  try {
    if (tryLock(fd)) return fd;
  } catch (error) {
    fd.close();
    throw error;
  }
  fd.close();
  return undefined;
}

/** Far more often than others can come and go between two steps here. */
const ATTEMPTS = 100;

/**
 * As `tryLockFile`, for a file that others may remove meanwhile: its path leads to the file that was locked. The file says which
 * process has the lock.
 */
export function tryLockPath(path: string): OwnedFd | undefined {
  for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
    const lock = tryLockFile(path);
    if (lock === undefined) return undefined;
    try {
      if (isAt(path, lock)) {
        signLock(lock);
        return lock;
      }
    } catch (error) {
      lock.close();
      throw error;
    }
    lock.close();
  }
  return undefined;
}

export interface LockHolder {
  /** As in "process 123"; "another process" if the file does not say which. */
  readonly words: string;
  readonly pid: number | undefined;
}

/** Who has the lock on this file; undefined if nobody has, or it cannot be told. */
export function lockHolder(path: string): LockHolder | undefined {
  try {
    const fd = openFile(path, "own-read");
    try {
      if (libc().flock(fd.number, LOCK_SH | LOCK_NB) === 0 || lastErrno() !== errnos.EAGAIN) return undefined;
      const bytes = new Uint8Array(PID_BYTES);
      const pid = Number.parseInt(Buffer.from(bytes.subarray(0, readFilePart(fd, bytes, 0))).toString(), 10);
      return pid > 0 ? { words: `process ${pid}`, pid } : { words: "another process", pid: undefined };
    } finally {
      fd.close();
    }
  } catch {
    // No file, or none that this user may read.
    return undefined;
  }
}

const PID_BYTES = 16;

/** Says in the file that this process has the lock. */
export function signLock(lock: OwnedFd): void {
  try {
    ftruncateSync(lock.number, 0);
    writeFilePart(lock, Buffer.from(`${process.pid}\n`), 0);
  } catch {
    // WHY no failure: the lock is held all the same, and a disk may be full.
  }
}
