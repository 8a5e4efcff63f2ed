/** Whether a Unix socket takes descriptors at all. https://man7.org/linux/man-pages/man7/unix.7.html (SO_PASSRIGHTS) */
import { lastErrno, libc } from "../ffi/libc.js";
import type { OwnedFd } from "./owned-fd.js";
import { SO_PASSRIGHTS, SOL_SOCKET } from "./socket-layout.js";
import { errnos, systemError } from "./system-error.js";

/**
 * Lets others send descriptors to this socket, or keeps them from it: to send one fails with EPERM then. They may unless told otherwise,
 * and an accepted socket is as its listener. Has no effect before Linux 6.16.
 */
export function passDescriptors(socket: OwnedFd, passes: boolean): void {
  const value = new Uint8Array(Int32Array.of(passes ? 1 : 0).buffer);
  if (libc().setsockopt(socket.number, SOL_SOCKET, SO_PASSRIGHTS, value, 4) >= 0) return;
  const errno = lastErrno();
  if (errno !== errnos.ENOPROTOOPT) throw systemError("choose whether a socket takes descriptors", "setsockopt", errno);
}
