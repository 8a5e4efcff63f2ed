/** Sends one message with descriptors on a Unix socket, SEQPACKET or DGRAM. Nothing here waits. */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { lastErrno, libc } from "../ffi/libc.js";
import { addressOf } from "./host-memory.js";
import type { OwnedFd } from "./owned-fd.js";
import * as layout from "./socket-layout.js";
import { SO_PASSRIGHTS, SOL_SOCKET } from "./socket-layout.js";
import { errnos, systemError } from "./system-error.js";

/**
 * Sends one message. The caller keeps the descriptors.
 * @returns false if the other side has to read first
 * @throws MESSAGE_TOO_LARGE; PEER_GONE if the other side has hung up; TOO_MANY_FDS with
 * `ETOOMANYREFS` if this user has too many descriptors in flight
 */
export function trySendMessage(
  socket: OwnedFd,
  bytes: Uint8Array,
  fds: readonly OwnedFd[],
): boolean {
  if (bytes.byteLength === 0 || bytes.byteLength > limits.messageBytesMax) {
    throw new CudaIpcError(
      "MESSAGE_TOO_LARGE",
      `Cannot send a message of ${bytes.byteLength} bytes: ` +
        `the protocol takes 1 to ${limits.messageBytesMax}`,
    );
  }
  if (fds.length > limits.scmRightsFdsMax) {
    throw new RangeError(
      `A message takes ${limits.scmRightsFdsMax} file descriptors, not ${fds.length}`,
    );
  }
  const memory = messageMemory();
  memory.data.set(bytes);
  memory.prepareSend(
    bytes.byteLength,
    fds.map((fd) => fd.number),
  );
  const sent = retryInterrupted(() =>
    libc().sendmsg(socket.number, memory.header, layout.MSG_DONTWAIT | layout.MSG_NOSIGNAL),
  );
  if (sent >= 0) return true;
  if (lastErrno() === errnos.EAGAIN) return false;
  throw systemError(`send a message of ${bytes.byteLength} bytes`, "sendmsg");
}

export function retryInterrupted(call: () => number): number {
  for (;;) {
    const result = call();
    if (result >= 0 || lastErrno() !== errnos.EINTR) return result;
  }
}

let shared: layout.MessageMemory | undefined;

/**
 * One buffer for all sockets of the thread: each message is copied out before the next call. One
 * byte over the limit shows that a message was cut.
 */
export function messageMemory(): layout.MessageMemory {
  shared ??= new layout.MessageMemory(limits.messageBytesMax + 1, addressOf);
  return shared;
}

/**
 * Lets others send descriptors to this socket, or makes such a send fail with EPERM
 * (SO_PASSRIGHTS). They may by default, and an accepted socket inherits it from its listener. Has
 * no effect before Linux 6.16. https://man7.org/linux/man-pages/man7/unix.7.html
 */
export function passDescriptors(socket: OwnedFd, passes: boolean): void {
  const value = new Uint8Array(Int32Array.of(passes ? 1 : 0).buffer);
  if (libc().setsockopt(socket.number, SOL_SOCKET, SO_PASSRIGHTS, value, 4) >= 0) return;
  const errno = lastErrno();
  if (errno !== errnos.ENOPROTOOPT)
    throw systemError("choose whether a socket takes descriptors", "setsockopt", errno);
}
