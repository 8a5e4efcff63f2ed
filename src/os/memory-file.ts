/**
 * Memory with a file descriptor (memfd): sized once, sealed against resizing, so that nobody who maps it
 * can be ended by a shrink under its feet (SIGBUS), and of a mode by which other users who got a descriptor for reading
 * cannot open it anew for writing. https://man7.org/linux/man-pages/man2/memfd_create.2.html
 */
import { fchmodSync, writeSync } from "node:fs";
import { hasCode } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { lastErrno, libc } from "../ffi/libc.js";
import { statFile } from "./file-calls.js";
import { openFile } from "./open-file.js";
import { OwnedFd } from "./owned-fd.js";
import { errnos, fromNodeError, systemError } from "./system-error.js";

const MFD_CLOEXEC = 1;
const MFD_ALLOW_SEALING = 2;
const MFD_NOEXEC_SEAL = 8;
const F_ADD_SEALS = 1033;
const F_GET_SEALS = 1034;
const F_SEAL_SEAL = 1;
const F_SEAL_SHRINK = 2;
const F_SEAL_GROW = 4;
const F_SEAL_WRITE = 8;
const F_SEAL_FUTURE_WRITE = 16;
const F_GETFL = 3;
const O_ACCMODE = 3;
const O_RDWR = 2;
const SIZE_SEALS = F_SEAL_SHRINK | F_SEAL_GROW;
const HUGETLBFS_MAGIC = 0x9584_58f6;
/** Of struct statfs, whose first word is the type; 120 bytes in fact. */
const STATFS_BYTES = 256;
const WRITE_SEALS = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
/**
 * No other user opens it for writing by its name in /proc; who was sent a writable descriptor has one.
 * WHY: memory files are made with mode 0777, whatever the umask, and a descriptor for reading leads to that name.
 */
const OWNER_WRITES_MODE = 0o644;
const OTHERS_WRITE = 0o022;

export interface MemoryFileOptions {
  /** Its permissions: 0644 unless given. With 0600 other processes of the same user, and nobody else, may open it by its name in /proc. */
  readonly mode?: number;
}

/** New zeroed memory of exactly `byteLength` bytes whose size nobody can change. The caller owns the descriptor. */
export function createMemoryFile(name: string, byteLength: number, options: MemoryFileOptions = {}): OwnedFd {
  return acquireIn((scope) => {
    const fd = scope.own(create(name), (fd) => fd.close());
    if (libc().ftruncate(fd.number, byteLength) < 0) {
      throw systemError(`size memory file "${name}" to ${byteLength} bytes`, "ftruncate");
    }
    // WHY F_SEAL_SEAL: whoever may write could otherwise keep everybody from writing, for good (F_SEAL_WRITE).
    seal(fd, SIZE_SEALS | F_SEAL_SEAL);
    setMode(fd, options.mode ?? OWNER_WRITES_MODE);
    return fd;
  });
}

/** Memory that holds exactly these bytes and can be changed by nobody, its creator included. The caller owns the descriptor. */
export function createConstantFile(name: string, content: Uint8Array): OwnedFd {
  return acquireIn((scope) => {
    const fd = scope.own(create(name), (fd) => fd.close());
    try {
      for (let written = 0; written < content.byteLength; ) {
        written += writeSync(fd.number, content, written, content.byteLength - written);
      }
    } catch (error) {
      throw fromNodeError(`fill memory file "${name}" with ${content.byteLength} bytes`, error);
    }
    seal(fd, SIZE_SEALS | F_SEAL_WRITE | F_SEAL_SEAL);
    setMode(fd, OWNER_WRITES_MODE);
    return fd;
  });
}

export interface MemoryFileFacts {
  readonly byteLength: number;
  /** Nobody can resize it. */
  readonly sizeSealed: boolean;
  /** Nobody can change its bytes either. */
  readonly contentSealed: boolean;
  /** Its bytes can be changed by way of this descriptor. */
  readonly writable: boolean;
  /** Which file it is, as `device:inode`: the same for all descriptors of one file, and of no other for as long as one of them is open. */
  readonly inode: string;
  /** Nobody can seal it any further, and so keep it from being written. */
  readonly sealsClosed: boolean;
  /** Other users than its owner can open it anew for writing, by way of a descriptor for reading. */
  readonly othersMayWrite: boolean;
  /** Why it cannot be used at all, as the end of a sentence; absent if it can. Nothing is sealed then. */
  readonly flaw?: string;
}

/**
 * Describes a descriptor that another process sent. Never waits.
 * WHY the seals first: only files in memory have any, and the kernel answers for those by itself. A file of FUSE asks its server in
 * fstat, which can let this process wait for ever.
 */
export function inspectMemoryFile(fd: OwnedFd): MemoryFileFacts {
  const seals = sealsOf(fd);
  if (seals < 0) return unusable("it is not a memory file (memfd)");
  // WHY: a hole in huge pages is filled from a pool that can be empty, and whoever touches it then is killed (SIGBUS).
  if (fileSystemOf(fd) === HUGETLBFS_MAGIC) return unusable("it lies in huge pages (MFD_HUGETLB)");
  const stats = statFile(fd);
  const sizeSealed = isSizeSealed(seals);
  const writable = (libc().fcntl(fd.number, F_GETFL, 0) & O_ACCMODE) === O_RDWR;
  return {
    byteLength: Number(stats.size),
    sizeSealed,
    contentSealed: sizeSealed && (seals & F_SEAL_WRITE) !== 0,
    writable: writable && (seals & WRITE_SEALS) === 0,
    inode: `${stats.dev}:${stats.ino}`,
    sealsClosed: (seals & F_SEAL_SEAL) !== 0,
    othersMayWrite: (Number(stats.mode) & OTHERS_WRITE) !== 0,
  };
}

function unusable(flaw: string): MemoryFileFacts {
  const nothing = { byteLength: 0, sizeSealed: false, contentSealed: false, sealsClosed: false, writable: false };
  return { ...nothing, inode: "", othersMayWrite: true, flaw };
}

/** Only for descriptors with seals. */
function fileSystemOf(fd: OwnedFd): number {
  const facts = new Uint8Array(new ArrayBuffer(STATFS_BYTES));
  if (libc().fstatfs(fd.number, facts) < 0) throw systemError("look at a memory file", "fstatfs");
  return new DataView(facts.buffer).getUint32(0, true);
}

/** A descriptor of the same memory through which nobody can map it writable. The caller owns it. */
export function reopenReadOnly(fd: OwnedFd): OwnedFd {
  return openFile(`/proc/self/fd/${fd.number}`, "memory-read", "reopen a memory file for reading");
}

/**
 * A descriptor for writing of a memory file of which this process may have one for reading alone; undefined where the system does not
 * allow it: the file is another user's and this process not root, its content is sealed, or it is no memory file. The caller owns it.
 */
export function reopenWritable(fd: OwnedFd): OwnedFd | undefined {
  const seals = sealsOf(fd);
  if (!isSizeSealed(seals) || (seals & WRITE_SEALS) !== 0) return undefined;
  try {
    return openFile(`/proc/self/fd/${fd.number}`, "memory-read-write", "reopen a memory file for writing");
  } catch (error) {
    if (hasCode(error, "PERMISSION_DENIED")) return undefined;
    throw error;
  }
}

/** Whether the kernel keeps the file in memory: a memory file, or another file of tmpfs. */
export function hasSeals(fd: OwnedFd): boolean {
  return sealsOf(fd) >= 0;
}

/** Negative where the file is of a kind without seals. */
function sealsOf(fd: OwnedFd): number {
  return libc().fcntl(fd.number, F_GET_SEALS, 0);
}

/** True for memory files alone: all others on tmpfs count as sealed against further seals. */
function isSizeSealed(seals: number): boolean {
  return seals >= 0 && (seals & SIZE_SEALS) === SIZE_SEALS;
}

function setMode(fd: OwnedFd, mode: number): void {
  try {
    fchmodSync(fd.number, mode);
  } catch (error) {
    throw fromNodeError(`set the mode of a memory file to 0${mode.toString(8)}`, error);
  }
}

function create(name: string): OwnedFd {
  const flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  let fd = libc().memfd_create(name, flags | MFD_NOEXEC_SEAL);
  // WHY: MFD_NOEXEC_SEAL is refused with EINVAL by Linux before 6.3.
  if (fd < 0 && lastErrno() === errnos.EINVAL) fd = libc().memfd_create(name, flags);
  if (fd < 0) throw systemError(`create memory file "${name}"`, "memfd_create");
  return new OwnedFd(fd);
}

function seal(fd: OwnedFd, seals: number): void {
  if (libc().fcntl(fd.number, F_ADD_SEALS, seals) < 0) throw systemError("seal a memory file", "fcntl");
}
