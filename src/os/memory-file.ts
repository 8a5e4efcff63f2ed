/**
 * Memory with a file descriptor (memfd). Its size is sealed, so no process can shrink it under a
 * mapping (SIGBUS). Its mode keeps other users who got it for reading from opening it for writing.
 * https://man7.org/linux/man-pages/man2/memfd_create.2.html
 */
import { writeSync } from "node:fs";
import { roundUp } from "../base/bytes.js";
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
/** `st_blocks` counts these, whatever the file system. */
const STAT_BLOCK_BYTES = 512;
/** Room for struct statfs, which has 120 bytes and begins with the type. */
const STATFS_BYTES = 256;
const WRITE_SEALS = F_SEAL_WRITE | F_SEAL_FUTURE_WRITE;
/**
 * Keeps other users from opening the file for writing through /proc. WHY: memory files begin with
 * mode 0777 whatever the umask, and a descriptor for reading leads to that path.
 */
const OWNER_WRITES_MODE = 0o644;
const OTHERS_WRITE = 0o022;

export interface MemoryFileOptions {
  /**
   * Permissions; 0644 by default. With 0600 only processes of the same user can open it through
   * /proc.
   */
  readonly mode?: number;
}

/**
 * Creates zeroed memory of exactly `byteLength` bytes, whose size nobody can change. The caller
 * owns the descriptor.
 */
export function createMemoryFile(
  name: string,
  byteLength: number,
  options: MemoryFileOptions = {},
): OwnedFd {
  return acquireIn((scope) => {
    const fd = scope.own(create(name), (fd) => fd.close());
    if (libc().ftruncate(fd.number, byteLength) < 0) {
      throw systemError(`size memory file "${name}" to ${byteLength} bytes`, "ftruncate");
    }
    // WHY F_SEAL_SEAL: without it a process that may write could end all writing for good
    // (F_SEAL_WRITE).
    seal(fd, SIZE_SEALS | F_SEAL_SEAL);
    setMode(fd, options.mode ?? OWNER_WRITES_MODE);
    return fd;
  });
}

/** Creates memory with these bytes, which nobody can change. The caller owns the descriptor. */
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
  /** Nobody can resize it or change its bytes. */
  readonly contentSealed: boolean;
  /** This descriptor can change its bytes. */
  readonly writable: boolean;
  /**
   * The file's identity as `device:inode`. No other file has it while a descriptor of this one is
   * open.
   */
  readonly inode: string;
  /** Nobody can add seals that would forbid writing. */
  readonly sealsClosed: boolean;
  /** Other users can open it for writing through a descriptor for reading. */
  readonly othersMayWrite: boolean;
  /** Why it cannot be used, as the end of a sentence; absent if it can. */
  readonly flaw?: string;
}

/**
 * Describes a descriptor from another process. Never waits.
 * WHY the seals first: only files in memory have seals, and the kernel answers for them itself. For
 * a FUSE file fstat asks its server, which may never answer.
 */
export function inspectMemoryFile(fd: OwnedFd): MemoryFileFacts {
  const seals = sealsOf(fd);
  if (seals < 0) return unusable("it is not a memory file (memfd)");
  // A hole in huge pages is filled from a pool that can run out. A process that touches the hole is
  // then killed (SIGBUS).
  if (fileSystemOf(fd) === HUGETLBFS_MAGIC) return unusable("it lies in huge pages (MFD_HUGETLB)");
  const stats = statFile(fd);
  const heldBytes = Number(stats.blocks) * STAT_BLOCK_BYTES;
  // WHY: a file can get memory behind its end (fallocate) before its size is sealed. Its close
  // would then take longer than its size says, and the memory would count for nothing. `blksize` is
  // the size of its pages, huge ones if the system gives it those.
  if (heldBytes > roundUp(Number(stats.size), Number(stats.blksize)))
    return unusable(`it has ${stats.size} bytes, and memory of ${heldBytes} bytes`);
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
  const nothing = {
    byteLength: 0,
    sizeSealed: false,
    contentSealed: false,
    sealsClosed: false,
    writable: false,
  };
  return { ...nothing, inode: "", othersMayWrite: true, flaw };
}

/** Call it only for descriptors with seals. */
function fileSystemOf(fd: OwnedFd): number {
  const facts = new Uint8Array(new ArrayBuffer(STATFS_BYTES));
  if (libc().fstatfs(fd.number, facts) < 0) throw systemError("look at a memory file", "fstatfs");
  return new DataView(facts.buffer).getUint32(0, true);
}

/** Reopens the memory so that nobody can map it writable. The caller owns the new descriptor. */
export function reopenReadOnly(fd: OwnedFd): OwnedFd {
  return openFile(`/proc/self/fd/${fd.number}`, "memory-read", "reopen a memory file for reading");
}

/**
 * Reopens the memory for writing, even if this descriptor is for reading. Returns undefined if the
 * file belongs to another user, is content-sealed or is not a memory file. The caller owns the new
 * descriptor.
 */
export function reopenWritable(fd: OwnedFd): OwnedFd | undefined {
  const seals = sealsOf(fd);
  if (!isSizeSealed(seals) || (seals & WRITE_SEALS) !== 0) return undefined;
  try {
    return openFile(
      `/proc/self/fd/${fd.number}`,
      "memory-read-write",
      "reopen a memory file for writing",
    );
  } catch (error) {
    if (hasCode(error, "PERMISSION_DENIED")) return undefined;
    throw error;
  }
}

/** True if the kernel keeps the file in memory: a memory file or another file of tmpfs. */
export function hasSeals(fd: OwnedFd): boolean {
  return sealsOf(fd) >= 0;
}

/** Negative if files of this kind have no seals. */
function sealsOf(fd: OwnedFd): number {
  return libc().fcntl(fd.number, F_GET_SEALS, 0);
}

/** True only for memory files. Other files of tmpfs count as sealed against further seals. */
function isSizeSealed(seals: number): boolean {
  return seals >= 0 && (seals & SIZE_SEALS) === SIZE_SEALS;
}

/** WHY not by Node: its permission model refuses fchmod, whatever is allowed. */
function setMode(fd: OwnedFd, mode: number): void {
  if (libc().fchmod(fd.number, mode) < 0)
    throw systemError(`set the mode of a memory file to 0${mode.toString(8)}`, "fchmod");
}

function create(name: string): OwnedFd {
  const flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  let fd = libc().memfd_create(name, flags | MFD_NOEXEC_SEAL);
  // Linux before 6.3 refuses MFD_NOEXEC_SEAL with EINVAL.
  if (fd < 0 && lastErrno() === errnos.EINVAL) fd = libc().memfd_create(name, flags);
  if (fd < 0) throw systemError(`create memory file "${name}"`, "memfd_create");
  return new OwnedFd(fd);
}

function seal(fd: OwnedFd, seals: number): void {
  if (libc().fcntl(fd.number, F_ADD_SEALS, seals) < 0)
    throw systemError("seal a memory file", "fcntl");
}
