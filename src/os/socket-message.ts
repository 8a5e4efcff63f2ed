/**
 * One message with its descriptors onto a Unix socket, SEQPACKET or DGRAM, by sendmsg; and the room that receiving uses too.
 * Nothing here blocks or waits.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { lastErrno, libc } from "../ffi/libc.js";
import { addressOf } from "./host-memory.js";
import type { OwnedFd } from "./owned-fd.js";
import * as layout from "./socket-layout.js";
import { errnos, systemError } from "./system-error.js";

/**
 * Sends one message; the descriptors stay the caller's.
 * @returns false where the other side has not read enough to take it
 * @throws MESSAGE_TOO_LARGE; PEER_GONE where the other side has hung up; TOO_MANY_FDS with `ETOOMANYREFS` where this user has more
 * descriptors under way, sent and not yet received, than a process may have open
 */
export function trySendMessage(socket: OwnedFd, bytes: Uint8Array, fds: readonly OwnedFd[]): boolean {
  if (bytes.byteLength === 0 || bytes.byteLength > limits.messageBytesMax) {
    throw new CudaIpcError(
      "MESSAGE_TOO_LARGE",
      `Cannot send a message of ${bytes.byteLength} bytes: the protocol takes 1 to ${limits.messageBytesMax}`,
    );
  }
  if (fds.length > limits.scmRightsFdsMax) {
    throw new RangeError(`A message takes ${limits.scmRightsFdsMax} file descriptors, not ${fds.length}`);
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

/** One room for all sockets of the thread: a message is copied out before the next call. One byte over the limit shows a cut. */
export function messageMemory(): layout.MessageMemory {
  shared ??= new layout.MessageMemory(limits.messageBytesMax + 1, addressOf);
  return shared;
}
