/** Waits for the next packet of a socket that nobody else reads, and leaves what follows it in the socket. */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import { PacketChannel } from "../os/packet-channel.js";
import type { SeqpacketSocket } from "../os/seqpacket.js";

/**
 * The bytes of a packet without descriptors. The socket stays the caller's, and is closed where the other side has hung up.
 * @param attempt in words, for the message
 * @throws PEER_GONE, INVALID_MESSAGE, TIMEOUT, ABORTED
 */
export async function onePacket(socket: SeqpacketSocket, attempt: string, deadline: Deadline): Promise<Uint8Array> {
  let opened: PacketChannel | undefined;
  const first = new Promise<Uint8Array>((resolve, reject) => {
    const channel = new PacketChannel(socket, {
      onPacket: ({ bytes, fds, damage }) => {
        channel.pause();
        releaseAll(fds.map((fd) => () => fd.close()));
        if (damage === undefined && fds.length === 0) resolve(bytes);
        else
          reject(damage ?? new CudaIpcError("INVALID_MESSAGE", `Cannot ${attempt}: descriptors came where none may`));
      },
      onEnd: (reason) => reject(reason ?? hungUp(attempt)),
    });
    opened = channel;
  });
  try {
    return await deadline.race(first, () => {});
  } finally {
    if (opened?.open) opened.takeOver();
  }
}

function hungUp(attempt: string): CudaIpcError {
  return new CudaIpcError("PEER_GONE", `Cannot ${attempt}: the other side hung up`);
}
