/** The client side of a connection to a `PeerListener` of the same user. */
import type { Deadline } from "../base/deadline.js";
import { isErrorCode } from "../base/error-codes.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { userWords } from "../os/accounts.js";
import { closeFds } from "../os/foreign-fd.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { PacketChannel } from "../os/packet-channel.js";
import { ownUid } from "../os/runtime-folder.js";
import { type Packet, SeqpacketSocket } from "../os/seqpacket.js";
import { encodeMessage } from "../wire/codec.js";
import type { PeerMessage, Refusal } from "../wire/peer-messages.js";

/** The most messages that may wait for `receive`. Peer protocols send one at a time. */
const UNREAD_MAX = 4;

export class PeerLink {
  /** The pid of the listener, for errors. 0 if this process cannot see its PID namespace. */
  readonly pid: number;
  readonly #path: string;
  readonly #socket: SeqpacketSocket;
  readonly #channel: PacketChannel;
  readonly #unread: Packet[] = [];
  #ended: CudaIpcError | undefined;
  #wake: () => void = () => {};

  private constructor(path: string, socket: SeqpacketSocket, pid: number) {
    this.pid = pid;
    this.#path = path;
    this.#socket = socket;
    this.#channel = new PacketChannel(socket, {
      onPacket: (packet) => this.#onPacket(packet),
      onEnd: (reason) => this.#end(this.#gone(reason)),
    });
  }

  /**
   * Connects to the socket at `path`.
   * @throws SystemError `ENOENT` or `ECONNREFUSED` if nobody listens, `EAGAIN` if the queue is full
   * @throws UNTRUSTED_PEER if the listener runs as another user
   */
  static connect(path: string): PeerLink {
    return acquireIn((scope) => {
      const socket = scope.own(SeqpacketSocket.connect(path), (socket) => socket.close());
      const { uid, pid } = socket.peerCredentials();
      if (uid !== ownUid()) {
        const found = `it runs as ${userWords(uid)}, this process as ${ownUid()}`;
        const message = `Cannot trust the process that listens at ${path}: ${found}`;
        throw new CudaIpcError("UNTRUSTED_PEER", message);
      }
      return new PeerLink(path, socket, pid);
    });
  }

  /** Sends a message and does not wait for a reply. @throws PEER_GONE, CLOSED */
  send(message: PeerMessage): void {
    if (this.#ended !== undefined) throw this.#ended;
    this.#channel.send(encodeMessage(message));
  }

  /** Sends a request and waits for its reply, as `receive` does. */
  async request(message: PeerMessage, deadline: Deadline): Promise<Packet> {
    try {
      this.send(message);
    } catch (error) {
      // A listener says why before it closes the connection. `receive` returns that message.
      if (!hasCode(error, "PEER_GONE")) throw error;
    }
    return this.receive(deadline);
  }

  /**
   * Returns the next message. The caller owns its descriptors.
   * @throws PEER_GONE if the listener closed the connection
   * @throws TIMEOUT, ABORTED, or the error of a damaged message
   */
  async receive(deadline: Deadline): Promise<Packet> {
    deadline.check();
    if (this.#unread.length === 0 && this.#ended === undefined) {
      const woken = new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await deadline.race(woken, () => {});
    }
    const packet = this.#unread.shift();
    if (packet === undefined) throw this.#ended ?? this.#gone(undefined);
    if (packet.damage !== undefined) throw packet.damage;
    return packet;
  }

  /**
   * Returns a pidfd of the listener; see `SeqpacketSocket.peerPidfd`. The connection must be open.
   */
  peerPidfd(): OwnedFd | undefined {
    return this.#socket.peerPidfd();
  }

  /** Sets whether the connection keeps this process alive. By default it does. */
  setReferenced(referenced: boolean): void {
    this.#channel.setReferenced(referenced);
  }

  close(): void {
    releaseAll([
      () => this.#channel.close(),
      () =>
        this.#end(
          new CudaIpcError("CLOSED", `Cannot use the connection to ${this.#path}: it was closed`),
        ),
      () => closeFds(this.#unread.splice(0).flatMap((packet) => packet.fds)),
    ]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #onPacket(packet: Packet): void {
    if (this.#unread.length >= UNREAD_MAX) {
      closeFds(packet.fds);
      throw new CudaIpcError(
        "INVALID_MESSAGE",
        `Cannot accept another message from ${this.#path}: no request is pending`,
      );
    }
    this.#unread.push(packet);
    this.#wake();
  }

  #gone(cause: unknown): CudaIpcError {
    if (cause instanceof CudaIpcError && cause.code === "INVALID_MESSAGE") return cause;
    return new CudaIpcError(
      "PEER_GONE",
      `Cannot wait for the process at ${this.#path}: it closed the connection`,
      {
        cause,
      },
    );
  }

  #end(reason: CudaIpcError): void {
    this.#ended ??= reason;
    this.#wake();
  }
}

/** Returns the error that a refusal carries. An unknown code becomes SYSTEM_ERROR. */
export function refusedBy({ error }: Pick<Refusal, "error">): CudaIpcError {
  return new CudaIpcError(isErrorCode(error.code) ? error.code : "SYSTEM_ERROR", error.message);
}
