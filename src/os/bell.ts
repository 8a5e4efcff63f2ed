/**
 * A counter in the kernel (eventfd) by which one process wakes another that sleeps. Every process
 * with the descriptor can ring. The sleeper watches it, and a ring stays until it is silenced.
 * https://man7.org/linux/man-pages/man2/eventfd.2.html
 */
import { readSync } from "node:fs";
import { lastErrno, libc } from "../ffi/libc.js";
import { signalBell } from "./bell-signal.js";
import { kindOf } from "./foreign-fd.js";
import { addressOf } from "./host-memory.js";
import { interrupted } from "./interrupted-call.js";
import { OwnedFd } from "./owned-fd.js";
import { errnos, fromNodeError, systemError } from "./system-error.js";

const EFD_CLOEXEC = 0x80000;
const EFD_NONBLOCK = 0x800;
const F_GETFL = 3;
const F_SETFL = 4;
const O_NONBLOCK = 0x800;
const PREADV2 = process.arch === "arm64" ? 286 : 327;
const RWF_NOWAIT = 8n;

/** Creates a bell that has not rung. The caller owns the descriptor. */
export function createBell(): OwnedFd {
  const fd = libc().eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (fd < 0) throw systemError("create a bell", "eventfd");
  return new OwnedFd(fd);
}

/** True if a descriptor from another process is a bell. */
export function isBell(fd: OwnedFd): boolean {
  return kindOf(fd) === "bell";
}

/**
 * Rings a bell. It does not matter whether anybody still listens. It never waits, whatever another
 * holder does to the bell. Without AIO a holder that fills the bell at the right moment delays this
 * call by one or two milliseconds.
 */
export function ringBell(fd: OwnedFd): void {
  const { number } = fd;
  if (signalBell(number)) return;
  unblock(fd);
  // WHY not Node's writeSync: it takes several times as long, and a process waits for this ring.
  const errno = interrupted(() => (libc().eventfd_write(number, 1) < 0 ? lastErrno() : 0));
  // A full counter has rung already. Others can fill it, but that only wakes its owner.
  if (errno !== 0 && errno !== errnos.EAGAIN && errno !== errnos.EINTR)
    throw systemError("ring a bell", "eventfd_write", errno);
}

/** Resets the bell until the next ring. Never waits, as `ringBell`. */
export function silenceBell(fd: OwnedFd): void {
  if (tryReadNow(fd)) return;
  unblock(fd);
  try {
    interrupted(() => readSync(fd.number, new Uint8Array(8)));
  } catch (error) {
    if (!isSilent(error)) throw fromNodeError("silence a bell", error);
  }
}

/** Returns false if the kernel lacks the flag for reads that never wait (Linux before 5.8). */
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

/** An iovec, followed by the 8 bytes it points to. */
function readRequest(): ReadRoom {
  const memory = new Uint8Array(new ArrayBuffer(24));
  const iovec = addressOf(memory);
  const view = new DataView(memory.buffer);
  view.setBigUint64(0, iovec + 16n, true);
  view.setBigUint64(8, 8n, true);
  return { memory, iovec };
}

/** WHY each time: another holder can clear O_NONBLOCK and fill the bell. */
function unblock(fd: OwnedFd): void {
  const flags = libc().fcntl(fd.number, F_GETFL, 0);
  if (flags >= 0 && (flags & O_NONBLOCK) !== 0) return;
  if (flags < 0 || libc().fcntl(fd.number, F_SETFL, flags | O_NONBLOCK) < 0)
    throw systemError("unblock a bell", "fcntl");
}

function isSilent(error: unknown): boolean {
  const code = error instanceof Error ? (error as NodeJS.ErrnoException).code : undefined;
  return code === "EAGAIN" || code === "EINTR";
}
