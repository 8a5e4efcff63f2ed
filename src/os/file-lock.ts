/**
 * A lock that the kernel releases when its holder dies (flock). It decides which of several
 * starting hubs runs. Its holder also takes a lock of the other kind (F_OFD_SETLK), because only
 * that kind can be looked at without being taken: whoever takes a lock for a moment to look can
 * keep another process from getting it.
 * https://man7.org/linux/man-pages/man2/F_OFD_SETLK.2const.html
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
const F_OFD_GETLK = 36;
const F_OFD_SETLK = 37;
const F_RDLCK = 0;
const F_WRLCK = 1;
const F_UNLCK = 2;
/** A struct flock: type 0:2, whence 2:2, start 8:8, length 16:8, pid 24:4. */
const FLOCK_BYTES = 32;

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
  markLock(fd, F_UNLCK);
  if (libc().flock(fd.number, LOCK_UN) < 0) throw systemError("unlock a file", "flock");
}

/** WHY no error: without the mark a look takes the lock for a moment, as `isHeld` says. */
function markLock(fd: OwnedFd, type: number): void {
  libc().fcntl_lock(fd.number, F_OFD_SETLK, wholeFile(type));
}

function wholeFile(type: number): Uint8Array {
  const lock = new Uint8Array(new ArrayBuffer(FLOCK_BYTES));
  lock[0] = type;
  return lock;
}

/** Looks without taking the lock. Only a system without F_OFD_GETLK needs to take it. */
function isHeld(fd: OwnedFd): boolean {
  // Locks for reading are none of ours.
  const lock = wholeFile(F_RDLCK);
  if (libc().fcntl_lock(fd.number, F_OFD_GETLK, lock) === 0) return lock[0] !== F_UNLCK;
  return libc().flock(fd.number, LOCK_SH | LOCK_NB) < 0 && lastErrno() === errnos.EAGAIN;
}

/**
 * True if this open file has the lock now. Takes it if it is free. The caller keeps the descriptor.
 */
export function tryLock(fd: OwnedFd): boolean {
  if (libc().flock(fd.number, LOCK_EX | LOCK_NB) === 0) {
    markLock(fd, F_WRLCK);
    return true;
  }
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
      if (!isHeld(fd)) return undefined;
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
