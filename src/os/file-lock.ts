/** A lock that the kernel gives back when its holder dies (flock): decides which of several starting hubs is the one. */
import { lastErrno, libc } from "../ffi/libc.js";
import { openFile } from "./open-file.js";
import type { OwnedFd } from "./owned-fd.js";
import { errnos, systemError } from "./system-error.js";

const LOCK_EX = 2;
const LOCK_NB = 4;

/** Whether the lock of this open file is held by way of it, as by whoever opened it and sent it here. The descriptor stays the caller's. */
export function holdsLock(fd: OwnedFd): boolean {
  if (libc().flock(fd.number, LOCK_EX | LOCK_NB) === 0) return true;
  const errno = lastErrno();
  if (errno === errnos.EAGAIN) return false;
  throw systemError("take over the lock of a hub", "flock", errno);
}

/** The lock on this file, held until the descriptor is closed; undefined where another process holds it. */
export function tryLockFile(path: string): OwnedFd | undefined {
  const fd = openFile(path, "append");
  if (libc().flock(fd.number, LOCK_EX | LOCK_NB) === 0) return fd;
  const errno = lastErrno();
  fd.close();
  if (errno === errnos.EAGAIN) return undefined;
  throw systemError(`lock ${path}`, "flock", errno);
}
