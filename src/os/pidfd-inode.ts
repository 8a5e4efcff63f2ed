/**
 * The number by which the kernel tells a process from all others of this boot: the inode of its pidfds. It is the same in every
 * PID namespace, and no later process gets it. Linux 6.9 and newer have it (pidfs).
 * https://man7.org/linux/man-pages/man2/pidfd_open.2.html
 */
import { createBell } from "./bell.js";
import { statFile } from "./file-calls.js";
import type { OwnedFd } from "./owned-fd.js";

let knownDevice: bigint | undefined;

/** Null before Linux 6.9, where all pidfds share one inode. */
export function pidfdInode(pidfd: OwnedFd): string | null {
  const { dev, ino } = statFile(pidfd);
  return dev === anonymousDevice() ? null : String(ino);
}

/** The file system of what has no inode of its own, bells among it. WHY asked by a bell: its number is not fixed. */
function anonymousDevice(): bigint {
  if (knownDevice !== undefined) return knownDevice;
  const bell = createBell();
  try {
    knownDevice = statFile(bell).dev;
  } finally {
    bell.close();
  }
  return knownDevice;
}
