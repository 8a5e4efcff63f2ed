/**
 * A worker's side of one link. It receives the client's requests and cancellations, and sends each
 * outcome. The link ends when the client closes its side, dies, or breaks the protocol.
 */
import type { DType } from "../array/dtype.js";
import { CudaIpcError, hasCode, messageOf } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { Meta } from "../channel/message-meta.js";
import type { ReceivedSlot } from "../channel/received-slot.js";
import type { Stream } from "../gpu/order/stream.js";
import { type Kind, ReceivedEnvelope } from "./envelope.js";
import { ReplySlot, type ReplySlots } from "./reply-slot.js";
import { ServiceRequest } from "./service-message.js";
import { Turns } from "./turns.js";

export interface LinkChannels<Q extends DType = DType, R extends DType = DType> {
  readonly requests: ChannelReader<Q>;
  readonly replies: ChannelWriter<R>;
  /** The most bytes of meta in a reply, with its envelope. */
  readonly metaBytesMax: number;
  /** The same for the report of a failure. */
  readonly reportBytesMax: number;
  readonly hasReplyData: boolean;
  readonly stream: Stream | undefined;
}

export interface LinkEvents<Q extends DType = DType, R extends DType = DType> {
  onRequest(link: WorkerLink<Q, R>, request: ServiceRequest<Q>): void;
  /** @param closeReplies closes the channel of the replies. Call it once, soon. */
  onEnd(link: WorkerLink<Q, R>, closeReplies: () => void): void;
  /** The device is lost. Clients may send their requests elsewhere when this process ends. */
  onLost(): void;
}

export class WorkerLink<Q extends DType = DType, R extends DType = DType> {
  readonly #requests: ChannelReader<Q>;
  readonly #replies: ReplySlots<R>;
  readonly #events: LinkEvents<Q, R>;
  readonly #turns = new Turns();
  readonly #ended = new AbortController();
  /** Requests without an answer. */
  readonly #underWay = new Map<number, ServiceRequest<Q>>();

  /** Takes over both channels. */
  constructor(
    {
      requests,
      replies,
      metaBytesMax,
      reportBytesMax,
      hasReplyData: hasData,
      stream,
    }: LinkChannels<Q, R>,
    events: LinkEvents<Q, R>,
  ) {
    this.#requests = requests;
    this.#replies = {
      writer: replies,
      turns: this.#turns,
      stream,
      metaBytesMax,
      reportBytesMax,
      hasData,
      signal: this.#ended.signal,
    };
    this.#events = events;
  }

  get open(): boolean {
    return !this.#ended.signal.aborted;
  }

  /** Receives requests until the link ends. */
  async listen(): Promise<void> {
    let found = "its client closed the link";
    try {
      for (;;) {
        const slot = await this.#requests.next();
        if (slot === undefined) break;
        this.#receive(slot);
      }
    } catch (error) {
      // The link stays open: closing it would tell the client that none of its requests was begun.
      if (hasCode(error, "DEVICE_LOST")) return this.#events.onLost();
      // Any other error ends this client alone, and each of its requests is told.
      found = messageOf(error);
    }
    this.close(found);
  }

  /** Returns a reply to fill. Close it. */
  openReply(): ReplySlot<R> {
    return new ReplySlot(this.#replies);
  }

  /**
   * Sends a finished reply. Does nothing if the request was answered before or the link has ended.
   */
  async send(
    request: ServiceRequest<Q>,
    reply: ReplySlot<R>,
    options: Parameters<ReplySlot<R>["commit"]>[1],
  ): Promise<void> {
    if (!this.open || this.#underWay.get(request.number) !== request) return reply.close();
    await reply.commit({ kind: "reply", number: request.number }, options);
    this.#underWay.delete(request.number);
  }

  /**
   * Sends an outcome without data, in the slot of `reply` if its handler has loaned one. Does
   * nothing if the request was answered before or the link has ended.
   *
   * WHY in that slot: one that a stream may write to would be passed over. The client has not
   * reckoned with a message more, and the answer could wait until it releases another reply.
   * In a slot of its own it needs no stream, which refuses once its device is lost.
   */
  async answer(
    request: ServiceRequest<Q>,
    kind: Kind,
    { meta, reply }: { meta?: Meta; reply?: ReplySlot<R> } = {},
  ): Promise<void> {
    this.#giveBack(() => request.release());
    if (!this.open || !this.#underWay.delete(request.number)) return;
    const own = reply?.isLoaned ? reply : new ReplySlot({ ...this.#replies, stream: undefined });
    if (own !== reply && reply !== undefined) this.closeReply(reply);
    try {
      await own.commit({ kind, number: request.number }, { meta, byteLength: 0 });
    } catch (error) {
      if (hasCode(error, "DEVICE_LOST")) this.#events.onLost();
      else if (this.open) this.close(`an answer could not be sent: ${messageOf(error)}`);
    } finally {
      this.closeReply(own);
    }
  }

  /** Returns the slot of a reply that was not sent. */
  closeReply(reply: ReplySlot<R>): void {
    this.#giveBack(() => reply.close());
  }

  /** The stream of a lost device refuses to give anything back. */
  #giveBack(close: () => void): void {
    try {
      close();
    } catch (error) {
      if (!hasCode(error, "DEVICE_LOST")) throw error;
      this.#events.onLost();
    }
  }

  /** Ends both channels, and aborts the requests of this link that are being handled. */
  close(found: string): void {
    if (!this.open) return;
    this.#ended.abort();
    this.#turns.close(new CudaIpcError("PEER_GONE", `Cannot reply: ${found}`));
    for (const request of this.#underWay.values()) request.giveUp("PEER_GONE", found);
    this.#underWay.clear();
    releaseAll([
      () => this.#requests.close(),
      () => this.#events.onEnd(this, () => this.#giveBack(() => this.#replies.writer.close())),
    ]);
  }

  /** @throws CHANNEL_CORRUPT for a message that no client sends */
  #receive(slot: ReceivedSlot<Q>): void {
    const envelope = new ReceivedEnvelope(this.#requests.label, slot.meta);
    const { kind, number } = envelope;
    if (kind === "cancel") {
      slot.release();
      this.#underWay.get(number)?.giveUp("ABORTED", "its client cancelled it");
      return;
    }
    if (kind !== "request" || this.#underWay.has(number)) {
      const found =
        kind === "request" ? `number ${number} is open already` : `its kind is "${kind}"`;
      throw new CudaIpcError(
        "CHANNEL_CORRUPT",
        `Cannot accept a request of "${this.#requests.label}": ${found}`,
      );
    }
    const request = new ServiceRequest(slot, envelope);
    this.#underWay.set(number, request);
    this.#events.onRequest(this, request);
  }
}
