/**
 * A connected socket on the event loop: messages in by callback, messages out at once or, where the other side
 * does not read, through a bounded queue. Ends once, with a reason.
 */
import { CudaIpcError, hasCode } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { FdWatch } from "./fd-watch.js";
import type { OwnedFd } from "./owned-fd.js";
import type { Packet, SeqpacketSocket } from "./seqpacket.js";

export interface PacketHandler {
  /** The descriptors belong to the handler. What it throws ends the channel. */
  onPacket(packet: Packet): void;
  /** Called once: without a reason when the other side closed, with one when something failed here. Not after `close()`. */
  onEnd(reason: unknown): void;
}

/** A message that waits for the other side to read. */
interface QueuedMessage {
  readonly bytes: Uint8Array;
  /** Duplicates that are the queue's own. */
  readonly fds: readonly OwnedFd[];
}

export interface PacketChannelOptions {
  /** Messages that may wait before `send` throws. */
  readonly queueMessagesMax?: number;
}

/**
 * Messages taken from one socket before the event loop gets its turn, so that one busy peer does not starve the others.
 * WHY also of those that are sent from the queue: who sends faster than it reads would fill the other side's queue with replies.
 */
const PACKETS_PER_TURN = 64;

export class PacketChannel {
  readonly socket: SeqpacketSocket;
  readonly #handler: PacketHandler;
  readonly #watch: FdWatch;
  readonly #queue: QueuedMessage[] = [];
  readonly #queueMessagesMax: number;
  #open = true;
  #paused = false;

  /** Takes over the socket, unless it throws. */
  constructor(socket: SeqpacketSocket, handler: PacketHandler, options: PacketChannelOptions = {}) {
    this.socket = socket;
    this.#handler = handler;
    this.#queueMessagesMax = options.queueMessagesMax ?? limits.sendQueueMessagesMax;
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
   * @throws LIMIT_EXCEEDED where too many messages wait already, CLOSED after the end; PEER_GONE where the other side has hung up,
   * which `onEnd` tells too, after what it had sent was received
   */
  send(bytes: Uint8Array, fds: readonly OwnedFd[] = []): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", "Cannot send a message: the connection has ended");
    if (this.#queue.length === 0 && this.socket.trySend(bytes, fds)) return;
    if (this.#queue.length >= this.#queueMessagesMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot send a message: ${this.#queueMessagesMax} already wait because the other side does not read`,
      );
    }
    const duplicates = acquireIn((scope) => fds.map((fd) => scope.own(fd.duplicate(), (twin) => twin.close())));
    this.#queue.push({ bytes, fds: duplicates });
    this.#watch.setWritable(true);
  }

  /**
   * Receives nothing until `resume`: what is sent meanwhile waits in the socket, and in the end the other side has to wait.
   * Also its hanging up is noticed only then. Messages of this side are still sent. Without any it keeps no process from ending.
   */
  pause(): void {
    this.#paused = true;
    this.#watch.setReadable(false);
  }

  resume(): void {
    this.#paused = false;
    this.#watch.setReadable(true);
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
      this.#receive();
      if (this.#open) this.#flush();
    } catch (error) {
      this.#end(error);
    }
  }

  #receive(): void {
    for (let count = 0; count < PACKETS_PER_TURN && this.#open && !this.#paused; count += 1) {
      const packet = this.socket.tryReceive();
      if (packet === undefined) return;
      if (packet === "end") this.#end(undefined);
      else this.#handler.onPacket(packet);
    }
  }

  #flush(): void {
    const count = Math.min(PACKETS_PER_TURN, this.#queue.length);
    let sent = 0;
    while (sent < count && this.#trySendQueued(this.#queue[sent])) sent += 1;
    const done = this.#queue.splice(0, sent).flatMap((waiting) => waiting.fds);
    if (this.#queue.length === 0) this.#watch.setWritable(false);
    releaseAll(done.map((fd) => () => fd.close()));
  }

  /** True where nothing is left to do: it was sent, or the other side has hung up, whose end is for `#receive` to find. */
  #trySendQueued(next: QueuedMessage | undefined): boolean {
    try {
      return next === undefined || this.socket.trySend(next.bytes, next.fds);
    } catch (error) {
      if (hasCode(error, "PEER_GONE")) return true;
      throw error;
    }
  }

  #end(reason: unknown): void {
    if (!this.#open) return;
    let told = reason;
    try {
      this.close();
    } catch (error) {
      // WHY told and not thrown: this is the event loop's call, and whoever waits for the end has to hear of it.
      told ??= error;
    }
    this.#handler.onEnd(told);
  }
}
