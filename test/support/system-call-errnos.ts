/**
 * With what each system call that this package makes can really fail, other than by a mistake of the caller's, most likely first.
 * From Linux's manual pages and, for Unix sockets and memory files, its source: https://man7.org/linux/man-pages/dir_section_2.html
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
 * WHY not EPIPE and ECONNRESET for sendmsg: they tell of a connection that has ended, which an errno alone does not bring about.
 * A socket that is shut down gives them by itself.
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
  fallocate: [errno.ENOSPC, errno.EINTR],
  mmap: [errno.ENOMEM],
  munmap: [errno.ENOMEM],
  memmove: [],
  memset: [],
  lseek: [],
  eventfd: NO_ROOM_FOR_FD,
  // No EAGAIN: it means that the bell has rung, which is false if the call was not made. A security
  // module remains.
  eventfd_write: [errno.EACCES],
  fstatfs: [errno.ENOMEM],
  flock: [errno.ENOLCK],
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
  // pidfd_open is the one that is made this way.
  syscall: NO_ROOM_FOR_FD,
  // io_setup, io_submit, io_getevents and preadv2 are made this way.
  kernel: [errno.EAGAIN],
  sendfile: [errno.EIO, errno.ENOSPC, errno.ENOMEM],
};

/** None for a call that cannot fail, with these arguments where they matter. */
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

/** More descriptors in flight than this user may have open. By number, because Node has no name. */
const ETOOMANYREFS = 109;
