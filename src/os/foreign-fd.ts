/**
 * Tells what a descriptor is that another process sent, by calls that never wait. WHY not fstat: a file of FUSE asks its server, which can
 * let it wait for ever. Seals are told by the kernel's own file systems alone, a link of /proc is made of names that the kernel has, and
 * statx asks nobody if it is told so. https://man7.org/linux/man-pages/man2/statx.2.html
 */
import { readFileSync, readlinkSync } from "node:fs";
import { libc } from "../ffi/libc.js";
import { statFile } from "./file-calls.js";
import { addressOf } from "./host-memory.js";
import { hasSeals } from "./memory-file.js";
import type { OwnedFd } from "./owned-fd.js";
import { fromNodeError } from "./system-error.js";

/** Memory files, bells and memory of NVIDIA's GPUs are closed without waiting; nothing is known of others. */
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

/** Of /dev/nvidia0 and /dev/nvidiactl since there has been a driver; others are given as it is loaded. */
const NVIDIA_MAJOR = 195;

export function kindOf(fd: OwnedFd): ForeignKind {
  if (hasSeals(fd)) return "memory file";
  const link = linkOf(fd);
  // A path begins with a slash, so no file in any file system can have such a name.
  // WHY: one that was opened as a path alone (O_PATH) can be neither rung nor watched.
  if (link === "anon_inode:[eventfd]" && !isPathAlone(fd)) return "bell";
  if (link.startsWith("anon_inode:")) return "anonymous file";
  const { type, major } = typeOf(fd);
  if (type === S_IFCHR && nvidiaMajors().has(major)) return "GPU memory";
  return kinds.get(type) ?? "unknown file";
}

/** Whether closing it never waits, also if it is the last of its open file. */
export function closesAtOnce(kind: ForeignKind): boolean {
  return kind === "memory file" || kind === "bell" || kind === "GPU memory";
}

/**
 * Closes a descriptor that another process sent, without waiting. What may wait is closed on the thread pool, one at a time, so that it
 * takes one thread of the pool at most. WHY not elsewhere: a copy in another process would not help, since a file of FUSE asks its server
 * at the close of every descriptor.
 */
export function closeForeign(fd: OwnedFd): void {
  const kind = tryKindOf(fd);
  // Pidfds are such files, which this process may have opened itself.
  if (closesAtOnce(kind) || kind === "anonymous file") {
    fd.close();
    return;
  }
  unclosed.push(fd);
  if (unclosed.length === 1) closeNext();
}

/** Less is freed in some milliseconds. */
const FREED_AT_ONCE_BYTES = 16 * 1024 * 1024;

/**
 * Closes memory or a bell that another process sent. The last close of memory frees it, which takes
 * some 100 ms for each GiB: large memory is closed on the thread pool, one file at a time.
 */
export function closeMemory(fd: OwnedFd): void {
  if (!isLargeMemory(fd)) {
    fd.close();
    return;
  }
  unclosed.push(fd);
  if (unclosed.length === 1) closeNext();
}

/** True for what cannot be looked at: it is closed all the same, and nobody waits for that. */
function isLargeMemory(fd: OwnedFd): boolean {
  try {
    return hasSeals(fd) && statFile(fd).size > FREED_AT_ONCE_BYTES;
  } catch {
    return true;
  }
}

/** WHY: what cannot be looked at is closed all the same. */
function tryKindOf(fd: OwnedFd): ForeignKind {
  try {
    return kindOf(fd);
  } catch {
    return "unknown file";
  }
}

/** The first is being closed. WHY reachable: an OwnedFd that is collected is closed. */
const unclosed: OwnedFd[] = [];

function closeNext(): void {
  const [next] = unclosed;
  if (next === undefined) return;
  libc().close.async(next.take(), () => {
    unclosed.shift();
    closeNext();
  });
}

/** Whether it can be memory of a GPU. WHY memory files too: they are what a driver that stands in for a GPU gives. */
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

/** Zeros if the system refuses to tell. */
function typeOf(fd: OwnedFd): { readonly type: number; readonly major: number } {
  const facts = new Uint8Array(new ArrayBuffer(STATX_BYTES));
  // SAFETY: the path is the zero byte in front of which nothing was written, and the kernel writes over it after it was read.
  const at = addressOf(facts);
  const flags = BigInt(AT_EMPTY_PATH | AT_STATX_DONT_SYNC);
  if (libc().kernel(STATX, BigInt(fd.number), at, flags, STATX_TYPE, at, 0n) < 0) return { type: 0, major: 0 };
  const view = new DataView(facts.buffer);
  return { type: view.getUint16(MODE_AT, true) & S_IFMT, major: view.getUint32(DEVICE_MAJOR_AT, true) };
}

let majors: ReadonlySet<number> | undefined;

function nvidiaMajors(): ReadonlySet<number> {
  majors ??= new Set([NVIDIA_MAJOR, ...listedMajors()]);
  return majors;
}

/** Lines like `239 nvidia-nvswitch` of /proc/devices; none where a sandbox has no such file. */
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
