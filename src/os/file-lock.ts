/** A lock that the kernel gives back when its holder dies (flock): decides which of several starting hubs is the one. */
import { lastErrno, libc } from "../ffi/libc.js";
import { isAt, openOwnFile } from "./own-file.js";
import type { OwnedFd } from "./owned-fd.js";
import { errnos, systemError } from "./system-error.js";

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
