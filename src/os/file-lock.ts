/**
 * A lock that the kernel releases when its holder dies (flock). It decides which of several
 * starting hubs runs.
 */
import { ftruncateSync } from "node:fs";
import { lastErrno, libc } from "../ffi/libc.js";
import { readFilePart, writeFilePart } from "./file-calls.js";
import { isAt, openFile, openOwnFile } from "./open-file.js";
import type { OwnedFd } from "./owned-fd.js";
import { errnos, systemError } from "./system-error.js";

const LOCK_SH = 1;
const LOCK_EX = 2;
const LOCK_NB = 4;
const LOCK_UN = 8;

/**
 * True if this open file is the one at the path and has the lock. Takes the lock if it is free. The
 * caller keeps the descriptor.
 */
export function isLocked(fd: OwnedFd, path: string): boolean {
  return isAt(path, fd) && tryLock(fd);
}

/**
 * Releases the lock at once. WHY not by closing alone: the lock belongs to the open file, and
 * another process may have a descriptor of it.
 */
export function unlockFile(fd: OwnedFd): void {
  if (libc().flock(fd.number, LOCK_UN) < 0) throw systemError("unlock a file", "flock");
}

/**
 * True if this open file has the lock now. Takes it if it is free. The caller keeps the descriptor.
 */
export function tryLock(fd: OwnedFd): boolean {
  if (libc().flock(fd.number, LOCK_EX | LOCK_NB) === 0) return true;
  const errno = lastErrno();
  if (errno === errnos.EAGAIN) return false;
  throw systemError("lock a file", "flock", errno);
}

/**
 * Locks this file until the descriptor is closed. Returns undefined if another process holds the
 * lock.
 * @throws PERMISSION_DENIED if it is not a plain file of this user
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

/** Far more often than other processes can replace the file between two steps. */
const ATTEMPTS = 100;

/**
 * As `tryLockFile`, for a file that others may remove meanwhile. Writes this process's pid into the
 * file.
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
  /** Such as "process 123", or "another process" if the file does not say which. */
  readonly words: string;
  readonly pid: number | undefined;
}

/** The process that holds the lock. Undefined if the lock is free or the holder cannot be found. */
export function lockHolder(path: string): LockHolder | undefined {
  try {
    const fd = openFile(path, "own-read");
    try {
      if (libc().flock(fd.number, LOCK_SH | LOCK_NB) === 0 || lastErrno() !== errnos.EAGAIN)
        return undefined;
      const bytes = new Uint8Array(PID_BYTES);
      const pid = Number.parseInt(
        Buffer.from(bytes.subarray(0, readFilePart(fd, bytes, 0))).toString(),
        10,
      );
      return pid > 0
        ? { words: `process ${pid}`, pid }
        : { words: "another process", pid: undefined };
    } finally {
      fd.close();
    }
  } catch {
    // There is no file, or this user may not read it.
    return undefined;
  }
}

const PID_BYTES = 16;

/** Writes this process's pid into the file. */
export function signLock(lock: OwnedFd): void {
  try {
    ftruncateSync(lock.number, 0);
    writeFilePart(lock, Buffer.from(`${process.pid}\n`), 0);
  } catch {
    // The lock is held even if the disk is full.
  }
}
