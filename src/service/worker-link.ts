/**
 * A worker's side of one link: takes the client's requests as they come, hears its cancellations, and sends what becomes of each. It
 * ends when the client closes its side or dies, or says what makes no sense.
 */
import type { DType } from "../array/dtype.js";
import { CudaIpcError, hasCode, messageOf } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { Meta } from "../channel/message-meta.js";
import type { ReceivedSlot } from "../channel/received-slot.js";
import type { Stream } from "../gpu/stream.js";
import { Arrived, type Kind } from "./envelope.js";
import { ReplySlot, type ReplySlots } from "./reply-slot.js";
import { ServiceRequest } from "./service-message.js";
import { Turns } from "./turns.js";

export interface LinkChannels<Q extends DType = DType, R extends DType = DType> {
  readonly requests: ChannelReader<Q>;
  readonly replies: ChannelWriter<R>;
  /** Of the replies. */
  readonly metaBytesMax: number;
  readonly hasReplyData: boolean;
  readonly stream: Stream | undefined;
}

export interface LinkEvents<Q extends DType = DType, R extends DType = DType> {
  onRequest(link: WorkerLink<Q, R>, request: ServiceRequest<Q>): void;
  onEnd(link: WorkerLink<Q, R>): void;
  /** The device is lost: what clients are owed is theirs to take elsewhere when this process ends. */
  onLost(): void;
}

export class WorkerLink<Q extends DType = DType, R extends DType = DType> {
  readonly #requests: ChannelReader<Q>;
  readonly #replies: ReplySlots<R>;
  readonly #events: LinkEvents<Q, R>;
  readonly #turns = new Turns();
  readonly #ended = new AbortController();
  /** Those that were not answered. */
  readonly #underWay = new Map<number, ServiceRequest<Q>>();

  /** Takes over both channels. */
  constructor(
    { requests, replies, metaBytesMax, hasReplyData: hasData, stream }: LinkChannels<Q, R>,
    events: LinkEvents<Q, R>,
  ) {
    this.#requests = requests;
    this.#replies = { writer: replies, turns: this.#turns, stream, metaBytesMax, hasData, signal: this.#ended.signal };
    this.#events = events;
  }

  get open(): boolean {
    return !this.#ended.signal.aborted;
  }

  /** Takes requests until the link ends. */
  async listen(): Promise<void> {
    let found = "its client has left";
    try {
      for (;;) {
        const slot = await this.#requests.next();
        if (slot === undefined) break;
        this.#take(slot);
      }
    } catch (error) {
      // WHY it stays open: a link that this side closes says that nothing was begun.
      if (hasCode(error, "DEVICE_LOST")) return this.#events.onLost();
      // WHY not told further: whatever it is, the client and its requests are gone, and each of those is told.
      found = messageOf(error);
    }
    this.close(found);
  }

  /** For the reply to a request; to be closed. */
  openReply(): ReplySlot<R> {
    return new ReplySlot(this.#replies);
  }

  /** Sends a reply that was made. Nothing where the request was answered before, or the link has ended. */
  async send(
    request: ServiceRequest<Q>,
    reply: ReplySlot<R>,
    options: Parameters<ReplySlot<R>["commit"]>[1],
  ): Promise<void> {
    if (!this.open || this.#underWay.get(request.number) !== request) return reply.close();
    await reply.commit({ kind: "reply", number: request.number }, options);
    this.#underWay.delete(request.number);
  }

  /** Says what became of a request instead of a reply. Nothing where it was answered before, or the link has ended. */
  async answer(request: ServiceRequest<Q>, kind: Kind, meta?: Meta): Promise<void> {
    request.release();
    if (!this.open || !this.#underWay.delete(request.number)) return;
    const reply = this.openReply();
    try {
      await reply.commit({ kind, number: request.number }, { meta });
    } catch (error) {
      if (hasCode(error, "DEVICE_LOST")) this.#events.onLost();
      else if (this.open) this.close(`an answer could not be sent: ${messageOf(error)}`);
    } finally {
      reply.close();
    }
  }

  /** Ends both channels; who works on a request of this link is told that nobody waits for it. */
  close(found: string): void {
    if (!this.open) return;
    this.#ended.abort();
    this.#turns.close(new CudaIpcError("PEER_GONE", `Cannot reply: ${found}`));
    for (const request of this.#underWay.values()) request.giveUp("PEER_GONE", found);
    this.#underWay.clear();
    const tell = () => this.#events.onEnd(this);
    releaseAll([() => this.#requests.close(), () => this.#replies.writer.close(), tell]);
  }

  /** @throws CHANNEL_CORRUPT for what no client says */
  #take(slot: ReceivedSlot<Q>): void {
    const arrived = new Arrived(this.#requests.label, slot.meta);
    const { kind, number } = arrived;
    if (kind === "cancel") {
      slot.release();
      this.#underWay.get(number)?.giveUp("ABORTED", "its client waits for it no more");
      return;
    }
    if (kind !== "request" || this.#underWay.has(number)) {
      const found = kind === "request" ? `number ${number} a second time` : `kind "${kind}"`;
      throw new CudaIpcError("CHANNEL_CORRUPT", `Cannot take a request of "${this.#requests.label}": ${found}`);
    }
    const request = new ServiceRequest(slot, arrived);
    this.#underWay.set(number, request);
    this.#events.onRequest(this, request);
  }
}
