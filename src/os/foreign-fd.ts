/**
 * Finds out what a descriptor from another process is, without ever waiting. WHY not fstat: a FUSE
 * file asks its server, which may never answer. Only the kernel's own file systems have seals, the
 * kernel itself makes the links of /proc, and statx has a flag to ask no server.
 * https://man7.org/linux/man-pages/man2/statx.2.html
 */
import { readFileSync, readlinkSync } from "node:fs";
import { limits } from "../base/limits.js";
import { releaseAll } from "../base/scope.js";
import { libc } from "../ffi/libc.js";
import { statFile } from "./file-calls.js";
import { addressOf } from "./host-memory.js";
import { createMemoryFile, hasSeals } from "./memory-file.js";
import { OwnedFd } from "./owned-fd.js";
import { AF_UNIX, SOCK_CLOEXEC, SOCK_SEQPACKET } from "./socket-layout.js";
import { trySendMessage } from "./socket-message.js";
import { fromNodeError } from "./system-error.js";

/** Memory files, bells and GPU memory can be closed without waiting. Other kinds may wait. */
export type ForeignKind = "memory file" | "bell" | "GPU memory" | OtherKind;

type OtherKind =
  | "anonymous file"
  | "socket"
  | "FIFO"
  | "folder"
  | "regular file"
  | "device file"
  | "symbolic link"
  | "unknown file";

const STATX = process.arch === "arm64" ? 291 : 332;
const AT_EMPTY_PATH = 0x1000;
const AT_STATX_DONT_SYNC = 0x4000;
const STATX_TYPE = 1n;
const STATX_BYTES = 256;
const MODE_AT = 28;
const DEVICE_MAJOR_AT = 128;
/** Of the file system: its major and its minor number. */
const FILE_SYSTEM_AT = 136;
const F_GETFL = 3;
const O_PATH = 0o10000000;
const S_IFMT = 0o170000;
const S_IFCHR = 0o020000;
const kinds = new Map<number, OtherKind>([
  [0o140000, "socket"],
  [0o120000, "symbolic link"],
  [0o100000, "regular file"],
  [0o060000, "device file"],
  [0o040000, "folder"],
  [S_IFCHR, "device file"],
  [0o010000, "FIFO"],
]);

/**
 * The fixed number of /dev/nvidia0 and /dev/nvidiactl. Others are assigned when a driver is loaded.
 */
const NVIDIA_MAJOR = 195;

export function kindOf(fd: OwnedFd): ForeignKind {
  if (hasSeals(fd)) return "memory file";
  const link = linkOf(fd);
  // A path begins with a slash, so no file can have this name.
  // A descriptor that was opened as a path alone (O_PATH) can be neither rung nor watched.
  if (link === "anon_inode:[eventfd]" && !isPathAlone(fd)) return "bell";
  if (link.startsWith("anon_inode:")) return "anonymous file";
  const { type, major } = typeOf(fd);
  if (type === S_IFCHR && nvidiaMajors().has(major)) return "GPU memory";
  return kinds.get(type) ?? "unknown file";
}

/** True if a close never waits, even the last one of the open file. */
export function closesAtOnce(kind: ForeignKind): boolean {
  return kind === "memory file" || kind === "bell" || kind === "GPU memory";
}

/**
 * Closes a descriptor from another process without waiting. One that may wait is closed on the
 * thread pool, one at a time, so it blocks at most one thread of the pool. A copy in another
 * process would not help: FUSE asks its server at the close of every descriptor.
 */
export function closeForeign(fd: OwnedFd): void {
  const kind = tryKindOf(fd);
  // Pidfds are such files, and this process may have opened them itself.
  if (closesAtOnce(kind) || kind === "anonymous file") {
    fd.close();
    return;
  }
  closeLater(fd);
}

/** The most memory that closes free in one turn of the event loop: a few milliseconds. */
const FREED_PER_TURN_BYTES = 16n * 1024n * 1024n;

let freedBytes = 0n;
/** Files that were closed in this turn. Only the last close of a file frees it. */
const freed = new Set<string>();

/**
 * Closes memory or a bell from another process. The last close frees the memory, at about 100 ms
 * for each GiB. So only a little is closed in each turn of the event loop, whoever calls. The rest
 * is freed on one thread of the pool.
 */
export function closeMemory(fd: OwnedFd): void {
  if (fd.closed) return;
  const freesNow = mayFreeNow(fd);
  if (freesNow) fd.close();
  else if (freesNow === false) freeLater(fd);
  // It cannot be inspected, so its close may wait.
  else closeLater(fd);
}

/** Undefined if it cannot be inspected. */
function mayFreeNow(fd: OwnedFd): boolean | undefined {
  try {
    if (!hasSeals(fd)) return true;
    const { size, blocks, dev, ino } = statFile(fd);
    const file = `${dev}:${ino}`;
    if (freed.has(file)) return true;
    // Memory can lie behind the end of a file, too.
    const allocated = blocks * 512n;
    const bytes = size > allocated ? size : allocated;
    if (freedBytes + bytes > FREED_PER_TURN_BYTES) return false;
    if (freed.size === 0) setImmediate(beginTurn);
    freed.add(file);
    freedBytes += bytes;
    return true;
  } catch {
    return undefined;
  }
}

function beginTurn(): void {
  freed.clear();
  freedBytes = 0n;
}

/** A descriptor that cannot be inspected is closed all the same. */
function tryKindOf(fd: OwnedFd): ForeignKind {
  try {
    return kindOf(fd);
  } catch {
    return "unknown file";
  }
}

/** The first one is being closed. WHY kept: a collected OwnedFd is closed. */
const unclosed: OwnedFd[] = [];

/** For all who have it, it is closed now. WHY: one of them may close it once more. */
function closeLater(fd: OwnedFd): void {
  if (fd.closed) return;
  unclosed.push(new OwnedFd(fd.take()));
  if (unclosed.length === 1) closeNext();
}

function closeNext(): void {
  const [next] = unclosed;
  if (next === undefined) return;
  libc().close.async(next.take(), () => {
    unclosed.shift();
    closeNext();
  });
}

/** Memory that waits to be freed. */
const unfreed: OwnedFd[] = [];
let isFreeing = false;

function freeLater(fd: OwnedFd): void {
  unfreed.push(new OwnedFd(fd.take()));
  if (!isFreeing) freeNext();
}

function freeNext(): void {
  const next = bundle(unfreed.splice(0, limits.scmRightsFdsMax));
  isFreeing = next !== undefined;
  if (next !== undefined) libc().close.async(next.take(), freeNext);
}

/**
 * One descriptor whose close frees them all: of a socket in which they lie unread. WHY: the thread
 * pool takes one close in each turn of the loop, and a client can send hundreds in that time.
 */
function bundle(fds: OwnedFd[]): OwnedFd | undefined {
  if (fds.length < 2) return fds[0];
  const pair = new Int32Array(new ArrayBuffer(8));
  const type = SOCK_SEQPACKET | SOCK_CLOEXEC;
  const [near = -1, far = -1] = libc().socketpair(AF_UNIX, type, 0, pair) < 0 ? [] : pair;
  if (far < 0) return firstOf(fds);
  using sender = new OwnedFd(near);
  const unread = new OwnedFd(far);
  if (!trySend(sender, fds)) {
    unread.close();
    return firstOf(fds);
  }
  for (const fd of fds) fd.close();
  return unread;
}

function trySend(sender: OwnedFd, fds: readonly OwnedFd[]): boolean {
  try {
    return trySendMessage(sender, Buffer.from(" "), fds);
  } catch {
    // For example, this user has too many descriptors in flight.
    return false;
  }
}

/** The others wait again. */
function firstOf(fds: OwnedFd[]): OwnedFd | undefined {
  unfreed.unshift(...fds.slice(1));
  return fds[0];
}

/** True if it can be GPU memory. Memory files count, too, because stand-ins for a GPU use them. */
export function isDeviceMemory(fd: OwnedFd): boolean {
  const kind = kindOf(fd);
  return kind === "GPU memory" || kind === "memory file";
}

function isPathAlone(fd: OwnedFd): boolean {
  return (libc().fcntl(fd.number, F_GETFL, 0) & O_PATH) !== 0;
}

function linkOf(fd: OwnedFd): string {
  const { number } = fd;
  try {
    return readlinkSync(`/proc/self/fd/${number}`);
  } catch (error) {
    throw fromNodeError("look at a descriptor", error);
  }
}

let memoryFileSystem: bigint | undefined;

/**
 * True if it is a memory file, also of a descriptor that was opened as a path alone. WHY the file
 * system: such a descriptor shows no seals. The kernel has all memory files in one, where nobody
 * else can make files.
 */
export function isInMemory(fd: OwnedFd): boolean {
  if (memoryFileSystem === undefined) {
    using own = createMemoryFile("probe", 1);
    memoryFileSystem = factsOf(own)?.getBigUint64(FILE_SYSTEM_AT, true);
  }
  const found = factsOf(fd)?.getBigUint64(FILE_SYSTEM_AT, true);
  return found !== undefined && found === memoryFileSystem;
}

/** Returns zeros if the system refuses. */
function typeOf(fd: OwnedFd): { readonly type: number; readonly major: number } {
  const facts = factsOf(fd);
  if (facts === undefined) return { type: 0, major: 0 };
  return {
    type: facts.getUint16(MODE_AT, true) & S_IFMT,
    major: facts.getUint32(DEVICE_MAJOR_AT, true),
  };
}

/** The result of statx, without asking a server. Undefined if the system refuses. */
function factsOf(fd: OwnedFd): DataView | undefined {
  const facts = new Uint8Array(new ArrayBuffer(STATX_BYTES));
  // SAFETY: the empty path is the first zero byte of the result, which the kernel reads before it
  // writes.
  const at = addressOf(facts);
  const flags = BigInt(AT_EMPTY_PATH | AT_STATX_DONT_SYNC);
  const result = libc().kernel(STATX, BigInt(fd.number), at, flags, STATX_TYPE, at, 0n);
  return result < 0 ? undefined : new DataView(facts.buffer);
}

let majors: ReadonlySet<number> | undefined;

function nvidiaMajors(): ReadonlySet<number> {
  majors ??= new Set([NVIDIA_MAJOR, ...listedMajors()]);
  return majors;
}

/** Lines like `239 nvidia-nvswitch` of /proc/devices; none if a sandbox hides the file. */
function listedMajors(): number[] {
  try {
    const lines = readFileSync("/proc/devices", "utf8").split("\n");
    return lines.flatMap((line) => {
      const found = /^\s*(\d+) nvidia/.exec(line);
      return found === null ? [] : [Number(found[1])];
    });
  } catch {
    return [];
  }
}

/** Closes descriptors that another process sent. Those that are closed already are left out. */
export function closeFds(fds: readonly OwnedFd[]): void {
  releaseAll(fds.map((fd) => () => closeForeign(fd)));
}
