/**
 * A connected socket on the event loop. Messages come in by callback. They go out at once, or
 * through a bounded queue if the other side does not read. It ends once, with a reason.
 */
import { CudaIpcError, hasCode } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { GrowingPause } from "../base/pause.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { FdWatch } from "./fd-watch.js";
import type { OwnedFd } from "./owned-fd.js";
import type { Packet, SeqpacketSocket } from "./seqpacket.js";
import { isInFlightLimit } from "./socket-message.js";

export interface PacketHandler {
  /** The handler owns the descriptors. If it throws, the channel ends. */
  onPacket(packet: Packet): void;
  /** Called once, but not after `close()`. The reason is undefined if the other side closed. */
  onEnd(reason: unknown): void;
}

/** A message that waits until the other side reads. */
interface QueuedMessage {
  readonly bytes: Uint8Array;
  /** Duplicates that the queue owns. */
  readonly fds: readonly OwnedFd[];
}

export interface PacketChannelOptions {
  /** Messages that may wait before `send` throws. */
  readonly queueMessagesMax?: number;
}

/**
 * Messages taken from or sent to one socket in one turn of the event loop. More would let one busy
 * peer starve the others. Sending more than it reads would fill the other side's queue.
 */
const PACKETS_PER_TURN = 64;

/** The longest pause before descriptors are sent again while this user has too many in flight. */
const IN_FLIGHT_PAUSE_MS_MAX = 50;

type Sent = "sent" | "no room" | "too many in flight";

export class PacketChannel {
  readonly socket: SeqpacketSocket;
  readonly #handler: PacketHandler;
  readonly #watch: FdWatch;
  readonly #queue: QueuedMessage[] = [];
  readonly #queueMessagesMax: number;
  readonly #pause = new GrowingPause(IN_FLIGHT_PAUSE_MS_MAX);
  #retryTimer: NodeJS.Timeout | undefined;
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

  /** Messages wait because this user has too many descriptors in flight. */
  get isInFlightLimited(): boolean {
    return this.#retryTimer !== undefined;
  }

  /**
   * Sends a message now, or as soon as there is room. The caller keeps the descriptors.
   * @throws LIMIT_EXCEEDED if too many messages wait; CLOSED after the end; PEER_GONE if the other
   * side has hung up. `onEnd` tells that, too, after all that the other side had sent.
   */
  send(bytes: Uint8Array, fds: readonly OwnedFd[] = []): void {
    if (!this.#open)
      throw new CudaIpcError("CLOSED", "Cannot send a message: the connection has ended");
    const sent = this.#queue.length === 0 ? this.#trySend({ bytes, fds }) : undefined;
    if (sent === "sent") return;
    if (this.#queue.length >= this.#queueMessagesMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot send a message: ${this.#queueMessagesMax} already wait because the other ` +
          "side does not read",
      );
    }
    const duplicates = acquireIn((scope) =>
      fds.map((fd) => scope.own(fd.duplicate(), (twin) => twin.close())),
    );
    this.#queue.push({ bytes, fds: duplicates });
    if (sent !== undefined) this.#await(sent);
  }

  /**
   * Stops receiving until `resume`. Messages wait in the socket, and so does a hang-up. Sending
   * goes on. A paused channel without queued messages does not keep the process alive.
   */
  pause(): void {
    this.#paused = true;
    this.#watch.setReadable(false);
  }

  resume(): void {
    this.#paused = false;
    this.#watch.setReadable(true);
  }

  /** Whether the connection keeps the process alive. It does by default. */
  setReferenced(referenced: boolean): void {
    this.#watch.setReferenced(referenced);
  }

  /** Ends the channel and drops the queued messages. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#stopRetry();
    const dropped = this.#queue.splice(0).flatMap((waiting) => waiting.fds);
    releaseAll([
      () => this.#watch.close(),
      () => this.socket.close(),
      ...dropped.map((fd) => () => fd.close()),
    ]);
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
    let count = 0;
    let sent: Sent = "sent";
    for (const next of this.#queue.slice(0, PACKETS_PER_TURN)) {
      sent = this.#trySendQueued(next);
      if (sent !== "sent") break;
      count += 1;
    }
    const done = this.#queue.splice(0, count).flatMap((waiting) => waiting.fds);
    if (count > 0) this.#pause.reset();
    if (this.#queue.length > 0) this.#await(sent);
    else {
      this.#watch.setWritable(false);
      this.#stopRetry();
    }
    releaseAll(done.map((fd) => () => fd.close()));
  }

  /** @param sent why the first message waits; "sent" if it is one too many for this turn */
  #await(sent: Sent): void {
    const isLimited = sent === "too many in flight";
    // The socket is writable all the same.
    this.#watch.setWritable(!isLimited);
    this.#stopRetry();
    if (!isLimited) return;
    // WHY unref: the watch decides whether this connection keeps the process alive.
    this.#retryTimer = setTimeout(() => this.#onReady(), this.#pause.nextMs()).unref();
  }

  #stopRetry(): void {
    clearTimeout(this.#retryTimer);
    this.#retryTimer = undefined;
  }

  #trySend({ bytes, fds }: QueuedMessage): Sent {
    try {
      return this.socket.trySend(bytes, fds) ? "sent" : "no room";
    } catch (error) {
      if (isInFlightLimit(error)) return "too many in flight";
      throw error;
    }
  }

  /**
   * "sent" if nothing is left to send: it was sent, or the other side has hung up. `#receive` then
   * finds the end.
   */
  #trySendQueued(next: QueuedMessage): Sent {
    try {
      return this.#trySend(next);
    } catch (error) {
      if (hasCode(error, "PEER_GONE")) return "sent";
      throw error;
    }
  }

  #end(reason: unknown): void {
    if (!this.#open) return;
    let told = reason;
    try {
      this.close();
    } catch (error) {
      // WHY not thrown: the event loop called this, and the handler must learn of the end.
      told ??= error;
    }
    this.#handler.onEnd(told);
  }
}
