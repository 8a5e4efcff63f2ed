/**
 * A connected socket on the event loop: messages in by callback, messages out at once or, where the other side
 * does not read, through a bounded queue. Ends once, with a reason.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { releaseAll } from "../base/scope.js";
import { FdWatch } from "./fd-watch.js";
import type { OwnedFd } from "./owned-fd.js";
import type { Packet, SeqpacketSocket } from "./seqpacket.js";

export interface PacketHandler {
  /** The descriptors belong to the handler. What it throws ends the channel. */
  onPacket(packet: Packet): void;
  /** Called once: without a reason when the other side closed, with one when something failed here. Not after `close()`. */
  onEnd(reason: unknown): void;
}

interface Waiting {
  readonly bytes: Uint8Array;
  /** Duplicates that are the queue's own. */
  readonly fds: readonly OwnedFd[];
}

/** Messages taken from one socket before the event loop gets its turn, so that one busy peer does not starve the others. */
const PACKETS_PER_TURN = 64;

export class PacketChannel {
  readonly socket: SeqpacketSocket;
  readonly #handler: PacketHandler;
  readonly #watch: FdWatch;
  readonly #queue: Waiting[] = [];
  #open = true;

  /** Takes over the socket. */
  constructor(socket: SeqpacketSocket, handler: PacketHandler) {
    this.socket = socket;
    this.#handler = handler;
    this.#watch = new FdWatch(socket.fd, () => this.#onReady());
  }

  get open(): boolean {
    return this.#open;
  }

  get queuedMessages(): number {
    return this.#queue.length;
  }

  /**
   * Sends a message, now or as soon as there is room; the descriptors stay the caller's.
   * @throws LIMIT_EXCEEDED where too many messages wait already, CLOSED after the end
   */
  send(bytes: Uint8Array, fds: readonly OwnedFd[] = []): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", "Cannot send a message: the connection has ended");
    if (this.#queue.length === 0 && this.socket.trySend(bytes, fds)) return;
    if (this.#queue.length >= limits.sendQueueMessagesMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot send a message: ${limits.sendQueueMessagesMax} already wait because the other side does not read`,
      );
    }
    this.#queue.push({ bytes, fds: fds.map((fd) => fd.duplicate()) });
    this.#watch.setWritable(true);
  }

  /** Whether the connection keeps the process from ending; it does unless told otherwise. */
  setReferenced(referenced: boolean): void {
    this.#watch.setReferenced(referenced);
  }

  /** Ends the channel from this side; messages that still wait are dropped. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const dropped = this.#queue.splice(0).flatMap((waiting) => waiting.fds);
    releaseAll([() => this.#watch.close(), () => this.socket.close(), ...dropped.map((fd) => () => fd.close())]);
  }

  #onReady(): void {
    try {
      this.#flush();
      for (let count = 0; count < PACKETS_PER_TURN && this.#open; count += 1) {
        const packet = this.socket.tryReceive();
        if (packet === undefined) return;
        if (packet === "end") {
          this.#end(undefined);
          return;
        }
        this.#handler.onPacket(packet);
      }
    } catch (error) {
      this.#end(error);
    }
  }

  #flush(): void {
    for (;;) {
      const next = this.#queue[0];
      if (next === undefined) break;
      if (!this.socket.trySend(next.bytes, next.fds)) return;
      this.#queue.shift();
      releaseAll(next.fds.map((fd) => () => fd.close()));
    }
    this.#watch.setWritable(false);
  }

  #end(reason: unknown): void {
    if (!this.#open) return;
    this.close();
    this.#handler.onEnd(reason);
  }
}
