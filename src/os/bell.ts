/**
 * A counter in the kernel (eventfd) by which one process wakes another that sleeps: whoever has its descriptor can ring, and the one who
 * sleeps watches it. Ringing is remembered until it was heard. https://man7.org/linux/man-pages/man2/eventfd.2.html
 */
import { readSync } from "node:fs";
import { lastErrno, libc } from "../ffi/libc.js";
import { signalBell } from "./bell-signal.js";
import { kindOf } from "./foreign-fd.js";
import { addressOf } from "./host-memory.js";
import { OwnedFd } from "./owned-fd.js";
import { errnos, fromNodeError, systemError } from "./system-error.js";

const EFD_CLOEXEC = 0x80000;
const EFD_NONBLOCK = 0x800;
const F_GETFL = 3;
const F_SETFL = 4;
const O_NONBLOCK = 0x800;
const PREADV2 = process.arch === "arm64" ? 286 : 327;
const RWF_NOWAIT = 8n;

/** A bell that has not rung. The caller owns the descriptor. */
export function createBell(): OwnedFd {
  const fd = libc().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) throw systemError("create a bell", "eventfd");
  return new OwnedFd(fd);
}

/** Whether a descriptor that somebody else sent is a bell. */
export function isBell(fd: OwnedFd): boolean {
  return kindOf(fd) === "bell";
}

/**
 * Ringing a bell that nobody hears any more is no error. Never waits, whatever another holder of the bell has done with it, if the
 * system has AIO; without AIO a holder that makes it wait and fills it at the right moment can hold up whoever rings.
 */
export function ringBell(fd: OwnedFd): void {
  if (signalBell(fd.number)) return;
  unblock(fd);
  // WHY not Node's writeSync: somebody sleeps, and it takes several times as long.
  if (libc().eventfd_write(fd.number, 1) >= 0) return;
  const errno = lastErrno();
  // WHY: its counter is full, and so it has rung. Others can fill it; that wakes its owner and does nothing more.
  if (errno !== errnos.EAGAIN) throw systemError("ring a bell", "eventfd_write", errno);
}

/** Hears it: it is silent until it is rung again. Never waits, as `ringBell`. */
export function silenceBell(fd: OwnedFd): void {
  if (tryReadNow(fd)) return;
  unblock(fd);
  try {
    readSync(fd.number, new Uint8Array(8));
  } catch (error) {
    if (!isAgain(error)) throw fromNodeError("silence a bell", error);
  }
}

/** False where the kernel cannot read an eventfd without waiting by a flag of the call (Linux before 5.8). */
function tryReadNow(fd: OwnedFd): boolean {
  readRoom ??= readRequest();
  const read = libc().kernel(PREADV2, BigInt(fd.number), readRoom.iovec, 1n, -1n, 0n, RWF_NOWAIT);
  return read >= 0 || lastErrno() === errnos.EAGAIN;
}

interface ReadRoom {
  readonly memory: Uint8Array;
  readonly iovec: bigint;
}

let readRoom: ReadRoom | undefined;

/** An iovec, and behind it the 8 bytes that it is of. */
function readRequest(): ReadRoom {
  const memory = new Uint8Array(new ArrayBuffer(24));
  const iovec = addressOf(memory);
  const view = new DataView(memory.buffer);
  view.setBigUint64(0, iovec + 16n, true);
  view.setBigUint64(8, 8n, true);
  return { memory, iovec };
}

/** WHY each time: another who has the bell can have set it to wait, and filled it. */
function unblock(fd: OwnedFd): void {
  const flags = libc().fcntl(fd.number, F_GETFL, 0);
  if (flags >= 0 && (flags & O_NONBLOCK) !== 0) return;
  if (flags < 0 || libc().fcntl(fd.number, F_SETFL, flags | O_NONBLOCK) < 0)
    throw systemError("unblock a bell", "fcntl");
}

function isAgain(error: unknown): boolean {
  return error instanceof Error && (error as NodeJS.ErrnoException).code === "EAGAIN";
}
