/** The client's end of a connection to a PeerListener of the same user: messages out, and each that comes in waited for. */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { closeForeign } from "../os/foreign-fd.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { PacketChannel } from "../os/packet-channel.js";
import { ownUid } from "../os/runtime-folder.js";
import { type Packet, SeqpacketSocket } from "../os/seqpacket.js";
import { userWords } from "../os/user-namespace.js";
import { encodeMessage } from "../wire/codec.js";
import type { PeerMessage } from "../wire/peer-messages.js";

/** Messages that may come without being waited for; no protocol between peers sends more than one. */
const UNREAD_MAX = 4;

export class PeerLink {
  readonly #path: string;
  readonly #socket: SeqpacketSocket;
  readonly #channel: PacketChannel;
  readonly #unread: Packet[] = [];
  #ended: CudaIpcError | undefined;
  #wake: () => void = () => {};

  private constructor(path: string, socket: SeqpacketSocket) {
    this.#path = path;
    this.#socket = socket;
    this.#channel = new PacketChannel(socket, {
      onPacket: (packet) => this.#onPacket(packet),
      onEnd: (reason) => this.#end(this.#gone(reason)),
    });
  }

  /**
   * @throws SystemError `ENOENT` or `ECONNREFUSED` where nobody listens, `EAGAIN` where too many wait already; UNTRUSTED_PEER
   */
  static connect(path: string): PeerLink {
    return acquireIn((scope) => {
      const socket = scope.own(SeqpacketSocket.connect(path), (socket) => socket.close());
      const { uid } = socket.peerCredentials();
      if (uid !== ownUid()) {
        const message = `Cannot trust who listens at ${path}: it runs as ${userWords(uid)}, this process as ${ownUid()}`;
        throw new CudaIpcError("UNTRUSTED_PEER", message);
      }
      return new PeerLink(path, socket);
    });
  }

  /** @throws PEER_GONE, CLOSED */
  send(message: PeerMessage): void {
    if (this.#ended !== undefined) throw this.#ended;
    this.#channel.send(encodeMessage(message));
  }

  /** Sends a request and waits for its answer, as `receive` does. */
  async request(message: PeerMessage, deadline: Deadline): Promise<Packet> {
    try {
      this.send(message);
    } catch (error) {
      // WHY: a listener that hangs up has said why, which is still to be received.
      if (!hasCode(error, "PEER_GONE")) throw error;
    }
    return this.receive(deadline);
  }

  /**
   * The next message; its descriptors are the caller's.
   * @throws PEER_GONE where the other side hung up, TIMEOUT, ABORTED, and what the message was damaged by
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

  /** A pidfd of the process that listens; see `SeqpacketSocket.peerPidfd`. The connection is open. */
  peerPidfd(): OwnedFd | undefined {
    return this.#socket.peerPidfd();
  }

  /** Whether the connection keeps this process from ending; it does unless told otherwise. */
  setReferenced(referenced: boolean): void {
    this.#channel.setReferenced(referenced);
  }

  close(): void {
    releaseAll([
      () => this.#channel.close(),
      () => this.#end(new CudaIpcError("CLOSED", `Cannot use the connection to ${this.#path}: it was closed`)),
      () => closeFds(this.#unread.splice(0).flatMap((packet) => packet.fds)),
    ]);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #onPacket(packet: Packet): void {
    if (this.#unread.length >= UNREAD_MAX) {
      closeFds(packet.fds);
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot take more from ${this.#path}: messages that nobody asked for`);
    }
    this.#unread.push(packet);
    this.#wake();
  }

  #gone(cause: unknown): CudaIpcError {
    if (cause instanceof CudaIpcError && cause.code === "INVALID_MESSAGE") return cause;
    return new CudaIpcError("PEER_GONE", `The process that listened at ${this.#path} has hung up`, { cause });
  }

  #end(reason: CudaIpcError): void {
    this.#ended ??= reason;
    this.#wake();
  }
}

export function closeFds(fds: readonly OwnedFd[]): void {
  releaseAll(fds.map((fd) => () => (fd.closed ? undefined : closeForeign(fd))));
}
