/** Sends and receives on Unix sockets, with descriptors. Nothing here waits. */
import { CudaIpcError, SystemError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { lastErrno, libc } from "../ffi/libc.js";
import { addressOf } from "./host-memory.js";
import { OwnedFd } from "./owned-fd.js";
import * as layout from "./socket-layout.js";
import { SO_PASSRIGHTS, SOL_SOCKET } from "./socket-layout.js";
import { errnos, systemError } from "./system-error.js";

/**
 * Sends one message on a SEQPACKET or DGRAM socket. The caller keeps the descriptors.
 * @returns false if the other side has to read first
 * @throws as `trySendPart`
 */
export function trySendMessage(
  socket: OwnedFd,
  bytes: Uint8Array,
  fds: readonly OwnedFd[],
): boolean {
  return trySendPart(socket, bytes, fds) > 0;
}

/**
 * Sends as many bytes as there is room for: all or none, except on a STREAM socket. The descriptors
 * go with the first byte. The caller keeps them.
 * @returns how many bytes it sent
 * @throws MESSAGE_TOO_LARGE; PEER_GONE if the other side has hung up; TOO_MANY_FDS with
 * `ETOOMANYREFS` if this user has too many descriptors in flight
 */
export function trySendPart(socket: OwnedFd, bytes: Uint8Array, fds: readonly OwnedFd[]): number {
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
  if (sent >= 0) return sent;
  if (lastErrno() === errnos.EAGAIN) return 0;
  throw systemError(`send a message of ${bytes.byteLength} bytes`, "sendmsg");
}

/**
 * True if this user has too many descriptors in flight. That passes: treat it as a full socket. It
 * does not become writable, so look again after a pause.
 */
export function isInFlightLimit(error: unknown): boolean {
  return error instanceof SystemError && error.errnoName === "ETOOMANYREFS";
}

/** Says who keeps a message with descriptors from being sent, as a clause. */
export function inFlightWords(): string {
  return (
    `user ${process.getuid?.()} has more file descriptors in flight than this process may open ` +
    "(ulimit -n): one of its processes sends some that nobody receives"
  );
}

/** One message, or a part of a stream. Without bytes and descriptors it is the end. */
export interface ReceivedPart {
  readonly bytes: Uint8Array;
  /** The receiver owns them. */
  readonly fds: readonly OwnedFd[];
  /** The flags of recvmsg. */
  readonly flags: number;
}

/**
 * Receives what is there. Returns undefined if there is nothing yet.
 * @param byteLengthMax the most bytes; a longer message is cut
 */
export function tryReceivePart(
  socket: OwnedFd,
  byteLengthMax: number = limits.messageBytesMax + 1,
): ReceivedPart | undefined {
  const memory = messageMemory();
  for (;;) {
    memory.prepareReceive(byteLengthMax);
    const received = retryInterrupted(() =>
      libc().recvmsg(socket.number, memory.header, layout.MSG_DONTWAIT | layout.MSG_CMSG_CLOEXEC),
    );
    if (received >= 0) {
      const fds = memory.receivedFds().map((fd) => new OwnedFd(fd));
      return { bytes: memory.data.slice(0, received), fds, flags: memory.receivedFlags() };
    }
    const errno = lastErrno();
    if (errno === errnos.EAGAIN) return undefined;
    // WHY again: if the peer hangs up with our messages unread, this error comes once, before the
    // rest of what it had sent.
    if (errno !== errnos.ECONNRESET) throw systemError("receive a message", "recvmsg", errno);
  }
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
