/**
 * Sends and receives one file descriptor with a few bytes beside it (SCM_RIGHTS), on a socket to a
 * program that need not use this package.
 */
import type { WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { integer, optionsOf, waitChecks } from "../base/option-checks.js";
import { shownValue } from "../base/shown-value.js";
import { closeForeign, kindOf } from "../os/foreign-fd.js";
import { OwnedFd } from "../os/owned-fd.js";
import { UnixSocket } from "./unix-socket.js";

const checkSend = optionsOf<WaitOptions>("sendFd()", waitChecks);

/**
 * Sends one descriptor with its metadata. The caller keeps the descriptor. If the socket is a
 * stream and the wait ends within the message, the socket is closed.
 * @param metadata 1 byte to 64 KiB, in any form that both programs agree on
 * @throws PEER_GONE if the other side has hung up
 * @throws TIMEOUT if it does not read; IN_USE if an earlier send is under way; ABORTED
 * @example
 * using fd = buffer.exportFd();
 * const size = new BigUint64Array([BigInt(buffer.allocationByteLength)]);
 * await sendFd(socket, fd, new Uint8Array(size.buffer));
 */
export async function sendFd(
  socket: UnixSocket,
  fd: OwnedFd,
  metadata: Uint8Array,
  options: WaitOptions = {},
): Promise<void> {
  checkSend(options);
  checkSocket(socket);
  if (!(fd instanceof OwnedFd)) throw new TypeError(`fd must be an OwnedFd, not ${shownValue(fd)}`);
  if (!(metadata instanceof Uint8Array))
    throw new TypeError(`metadata must be a Uint8Array, not ${shownValue(metadata)}`);
  const { byteLength } = metadata;
  if (byteLength === 0)
    throw new RangeError("metadata must have at least 1 byte: a stream carries no empty message");
  if (byteLength > limits.messageBytesMax) {
    const found = `its metadata has ${byteLength} bytes`;
    const message = `Cannot send a descriptor: ${found}, the limit is ${limits.messageBytesMax}`;
    throw new CudaIpcError("MESSAGE_TOO_LARGE", message);
  }
  await socket.transmit("send a descriptor", metadata, [fd], options);
}

export interface ReceiveFdOptions extends WaitOptions {
  /**
   * How many bytes of metadata come with the descriptor, up to 64 KiB. Required for a stream, which
   * does not keep the boundaries of messages. On a seqpacket socket the default is any number.
   */
  readonly metadataBytes?: number | undefined;
}

export interface ReceivedFd {
  /** The caller closes it. `DeviceBuffer.import` maps its memory. */
  readonly fd: OwnedFd;
  readonly metadata: Uint8Array;
  readonly kind: "memory file" | "GPU memory";
}

const checkReceive = optionsOf<ReceiveFdOptions>("receiveFd()", {
  ...waitChecks,
  metadataBytes: integer(1, limits.messageBytesMax),
});

/**
 * Receives one descriptor of memory with its metadata. Everything else is refused, and closed.
 * @throws INVALID_MESSAGE if no descriptor came, or several, or metadata of another size
 * @throws INVALID_DESCRIPTOR if it is neither a memory file (memfd) nor GPU memory
 * @throws PEER_GONE if the other side has hung up
 * @throws TOO_MANY_FDS, MESSAGE_TOO_LARGE, IN_USE, TIMEOUT, ABORTED
 * @example
 * const { fd, metadata } = await receiveFd(socket, { metadataBytes: 8 });
 * using memory = fd;
 * const byteLength = Number(new DataView(metadata.buffer).getBigUint64(0, true));
 * using buffer = DeviceBuffer.import(device, memory, { byteLength });
 */
export async function receiveFd(
  socket: UnixSocket,
  options: ReceiveFdOptions = {},
): Promise<ReceivedFd> {
  checkReceive(options);
  checkSocket(socket);
  const { metadataBytes } = options;
  if (socket.type === "stream" && metadataBytes === undefined)
    throw new TypeError("receiveFd() needs the option metadataBytes for a stream");
  const attempt = "receive a descriptor";
  const { bytes, fd, fdCount } = await socket.take(attempt, metadataBytes, options);
  if (fd === undefined)
    throw socket.refusal(attempt, `${bytes.byteLength} bytes came without a descriptor`);
  try {
    if (fdCount > 1) throw socket.refusal(attempt, `${fdCount} descriptors came, wanted 1`);
    if (bytes.byteLength === 0) throw socket.refusal(attempt, "a descriptor came without metadata");
    const kind = kindOf(fd);
    if (kind === "memory file" || kind === "GPU memory") return { fd, metadata: bytes, kind };
    const found = `it is of kind "${kind}", wanted a memory file (memfd) or GPU memory`;
    throw socket.refusal(attempt, found, "INVALID_DESCRIPTOR");
  } catch (error) {
    closeForeign(fd);
    throw error;
  }
}

function checkSocket(socket: UnixSocket): void {
  if (socket instanceof UnixSocket) return;
  throw new TypeError(`socket must be a UnixSocket, not ${shownValue(socket)}`);
}
