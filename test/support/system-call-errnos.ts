/**
 * The errnos that each system call of this package can really fail with, most likely first.
 * Mistakes of the caller are left out. Sources: Linux's manual pages
 * (https://man7.org/linux/man-pages/dir_section_2.html) and, for Unix sockets and memory files,
 * Linux itself.
 */
import { constants } from "node:os";
import type { LibcCall } from "../../src/ffi/intercept-libc.js";

const { errno } = constants;
const F_DUPFD_CLOEXEC = 1030;
const F_ADD_SEALS = 1033;
const SO_PEERPIDFD = 77;
/** In a msghdr: the number of bytes of control data. It is above 0 if descriptors are attached. */
const CONTROL_LENGTH_AT = 40;

const NO_ROOM_FOR_FD = [errno.EMFILE, errno.ENFILE, errno.ENOMEM];

/**
 * WHY not EPIPE and ECONNRESET for sendmsg: they mean that the connection has ended, which an errno
 * alone does not cause. A socket that is shut down gives them by itself.
 */
const byCall: Readonly<
  Record<Exclude<LibcCall, "fcntl" | "getsockopt" | "sendmsg">, readonly number[]>
> = {
  open: [...NO_ROOM_FOR_FD, errno.EACCES],
  close: [errno.EIO],
  dup3: NO_ROOM_FOR_FD,
  epoll_create1: NO_ROOM_FOR_FD,
  epoll_ctl: [errno.ENOMEM, errno.ENOSPC],
  epoll_wait: [errno.EINTR],
  memfd_create: NO_ROOM_FOR_FD,
  ftruncate: [errno.ENOMEM, errno.ENOSPC],
  fchmod: [errno.EROFS, errno.EPERM],
  fallocate: [errno.ENOSPC, errno.EINTR],
  mmap: [errno.ENOMEM],
  munmap: [errno.ENOMEM],
  memmove: [],
  memset: [],
  lseek: [],
  eventfd: NO_ROOM_FOR_FD,
  // No EAGAIN: it means that the bell has rung, which is false if the call was not made. A security
  // module can refuse.
  eventfd_write: [errno.EACCES],
  fstatfs: [errno.ENOMEM],
  flock: [errno.ENOLCK],
  fcntl_lock: [errno.ENOLCK, errno.EINVAL],
  inotify_init1: NO_ROOM_FOR_FD,
  inotify_add_watch: [errno.ENOSPC, errno.ENOMEM],
  socket: [...NO_ROOM_FOR_FD, errno.ENOBUFS],
  bind: [errno.ENOSPC, errno.EACCES, errno.EADDRINUSE],
  listen: [errno.ENOMEM],
  accept4: [...NO_ROOM_FOR_FD, errno.ECONNABORTED, errno.EINTR],
  connect: [errno.ECONNREFUSED, errno.EAGAIN, errno.ENOMEM],
  setsockopt: [errno.ENOPROTOOPT],
  socketpair: NO_ROOM_FOR_FD,
  // They cannot fail with these arguments.
  shutdown: [],
  ioctl: [],
  recvmsg: [errno.ENOMEM, errno.EINTR, errno.EAGAIN],
  poll: [errno.ENOMEM, errno.EINTR],
  // It cannot fail with these arguments.
  sigaction: [],
  // pidfd_open is made through it.
  syscall: NO_ROOM_FOR_FD,
  // AIO (io_setup and others), preadv2 and timers are made through it.
  kernel: [errno.EAGAIN],
  sendfile: [errno.EIO, errno.ENOSPC, errno.ENOMEM],
};

/** The errnos of a call with these arguments; none if it cannot fail. */
export function errnosOf(call: LibcCall, values: readonly unknown[]): readonly number[] {
  if (call === "fcntl") return ofFcntl(values[1]);
  // ENOPROTOOPT: Linux before 6.5 does not know the option. The other option, SO_PEERCRED, cannot
  // fail.
  if (call === "getsockopt")
    return values[2] === SO_PEERPIDFD ? [...NO_ROOM_FOR_FD, errno.ENOPROTOOPT] : [];
  if (call === "sendmsg") return ofSendmsg(values[1]);
  return byCall[call];
}

function ofFcntl(command: unknown): readonly number[] {
  if (command === F_DUPFD_CLOEXEC) return [errno.EMFILE];
  return command === F_ADD_SEALS ? [errno.EBUSY] : [];
}

function ofSendmsg(header: unknown): readonly number[] {
  const always = [errno.ENOMEM, errno.ENOBUFS, errno.EINTR, errno.EAGAIN];
  const { buffer, byteOffset } = header as Uint8Array;
  const carriesFds = new DataView(buffer, byteOffset).getBigUint64(CONTROL_LENGTH_AT, true) > 0n;
  return carriesFds ? [ETOOMANYREFS, ...always] : always;
}

/** This user has too many descriptors in flight. As a number, because Node has no name for it. */
const ETOOMANYREFS = 109;
