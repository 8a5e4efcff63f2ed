/** A lock that the kernel gives back when its holder dies (flock): decides which of several starting hubs is the one. */
import { lastErrno, libc } from "../ffi/libc.js";
import { openFile } from "./open-file.js";
import type { OwnedFd } from "./owned-fd.js";
import { errnos, systemError } from "./system-error.js";

const LOCK_EX = 2;
const LOCK_NB = 4;

/** The lock on this file, held until the descriptor is closed; undefined where another process holds it. */
export function tryLockFile(path: string): OwnedFd | undefined {
  const fd = openFile(path, "append");
  if (libc().flock(fd.number, LOCK_EX | LOCK_NB) === 0) return fd;
  const errno = lastErrno();
  fd.close();
  if (errno === errnos.EAGAIN) return undefined;
  throw systemError(`lock ${path}`, "flock", errno);
}
