/**
 * A client's side of one link. It sends requests to one worker, one slot at a time, and receives
 * their outcomes. The link ends when the worker closes its side or dies. Replies that are held stay
 * valid until they are released.
 */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { LoanedSlot } from "../channel/loaned-slot.js";
import type { ReceivedSlot } from "../channel/received-slot.js";
import type { Hub } from "../client/hub.js";
import type { Stream } from "../gpu/order/stream.js";
import { type Ask, Call, type Outcome, outcomeOf, reportOf } from "./client-call.js";
import { encodeEnvelope, monotonicMicros, ReceivedEnvelope } from "./envelope.js";
import { LinkWindow } from "./link-window.js";
import type { ServiceFacts } from "./service-facts.js";
import { ServiceMessage, SlotToFill } from "./service-message.js";
import { Turns } from "./turns.js";
import { processOf } from "./worker-process.js";

export interface ClientChannels {
  readonly worker: string;
  /** Undefined for a worker of this machine. */
  readonly machine: string | undefined;
  readonly requests: ChannelWriter;
  readonly replies: ChannelReader;
  readonly facts: ServiceFacts;
  readonly stream: Stream | undefined;
}

export interface ClientLinkEvents {
  /** The link may now accept requests that it had to refuse before. */
  onRoom(): void;
  onEnd(link: ClientLink): void;
  /** The link has ended, and no reply of it is held any more. */
  onSettled(link: ClientLink): void;
}

export class ClientLink {
  readonly worker: string;
  /** Its worker is on another machine. */
  readonly isFar: boolean;
  readonly #channels: ClientChannels;
  readonly #events: ClientLinkEvents;
  readonly #window: LinkWindow;
  readonly #turns = new Turns();
  readonly #ended = new AbortController();
  /** Committed requests whose callers still wait. */
  readonly #calls = new Map<number, Call>();
  readonly #cancelled: number[] = [];
  /** The request that is being filled. There is one at a time. */
  #filling: Call | undefined;
  #lastNumber = 0;
  #process: string | undefined;
  #isLeaving = false;

  /** Takes over both channels. */
  constructor(channels: ClientChannels, events: ClientLinkEvents) {
    this.worker = channels.worker;
    this.isFar = channels.machine !== undefined;
    this.#channels = channels;
    this.#events = events;
    this.#window = new LinkWindow(channels.facts.depth);
  }

  get open(): boolean {
    return !this.#ended.signal.aborted;
  }

  /** Requests of this client that the worker has yet to answer. */
  get load(): number {
    return this.#window.underWay + (this.#turns.areFree ? 0 : 1);
  }

  /** The worker for errors: its process if the hub says so at once, otherwise its id. */
  async workerWords(hub: Hub): Promise<string> {
    const { machine, replies } = this.#channels;
    if (machine !== undefined) return `${this.worker} on machine "${machine}"`;
    this.#process ??= await processOf(hub, replies.label);
    return this.#process ?? this.worker;
  }

  /** The worker accepts no more requests. The link ends once it has answered those it began. */
  get isLeaving(): boolean {
    return this.#isLeaving;
  }

  /** Replies that the program holds. */
  get held(): number {
    return this.#window.held;
  }

  /** It has no room only because the program holds replies. */
  get isHeldUp(): boolean {
    return this.open && !this.#isLeaving && this.#turns.areFree && this.#window.isHeldUp;
  }

  get hasRoom(): boolean {
    return this.open && !this.#isLeaving && this.#turns.areFree && this.#window.canSend;
  }

  /** Reserves room for one request. Call `send` or `giveBack` afterwards. */
  reserve(): void {
    this.#turns.tryTake();
  }

  giveBack(): void {
    this.#endTurn();
  }

  /**
   * Sends a request, for which room was reserved, and waits for its outcome.
   * @throws TIMEOUT, ABORTED, CLOSED if the client was closed, and what the callback throws
   */
  send(ask: Ask, deadline: Deadline): Promise<Outcome> {
    this.#lastNumber += 1;
    const call = new Call(this.#lastNumber, ask);
    void this.#fill(call, deadline);
    return deadline.race(call.outcome, () => this.#giveUp(call));
  }

  /** Receives the worker's messages until the link ends. */
  async listen(): Promise<void> {
    try {
      for (;;) {
        let slot = await this.#channels.replies.next();
        // A worker that closes its side has answered every request it began, so the rest may go
        // elsewhere.
        if (slot === undefined) break;
        this.#receive(slot);
        // WHY: a function that waits keeps its variables, and the program may drop the reply.
        slot = undefined;
      }
      this.#end((call) => call.settle({ kind: "elsewhere" }));
    } catch (cause) {
      this.#endBy(cause);
    }
  }

  /** On a lost device this client cannot send the request to another worker either. */
  #endBy(cause: unknown): void {
    if (hasCode(cause, "DEVICE_LOST")) this.#end((call) => call.fail(cause));
    else this.#end((call) => call.settle({ kind: "gone", cause }));
  }

  /** Ends the link and every reply of it that is held. */
  close(): void {
    const closed = () =>
      new CudaIpcError("CLOSED", "Cannot wait for a reply: the service client was closed");
    // Its callback may never end.
    const filling = this.#filling;
    releaseAll([
      () => this.#end((call) => call.fail(closed())),
      () => filling?.fail(closed()),
      () => this.#settle(),
    ]);
  }

  async #fill(call: Call, deadline: Deadline): Promise<void> {
    const { requests, stream } = this.#channels;
    let slot: LoanedSlot | undefined;
    this.#filling = call;
    try {
      slot = await requests.loan({ stream, signal: call.signal });
      await call.ask.fill?.(new SlotToFill(slot), call.signal);
      if (!this.open) call.settle({ kind: "elsewhere" });
      else if (!call.isGivenUp) this.#commit(call, slot, deadline);
    } catch (error) {
      if (this.open) call.fail(error);
      else call.settle({ kind: "elsewhere" });
    } finally {
      this.#filling = undefined;
      if (slot?.open) this.#passOver(slot);
      this.#endTurn();
    }
  }

  #passOver(slot: LoanedSlot): void {
    try {
      slot.close();
      if (this.#channels.stream !== undefined) this.#window.passedOver();
    } catch (cause) {
      // The stream refuses, and may still write to the slot.
      this.#endBy(cause);
    }
  }

  #commit(call: Call, slot: LoanedSlot, deadline: Deadline): void {
    const { requests, facts } = this.#channels;
    const { number, ask } = call;
    const { metaBytesMax } = facts.request;
    const remainingMicros = Math.ceil(deadline.remainingMs * 1000);
    const deadlineMicros = Number.isSafeInteger(remainingMicros)
      ? monotonicMicros() + remainingMicros
      : undefined;
    const envelope = { kind: "request", number, deadlineMicros } as const;
    const meta = encodeEnvelope(requests.label, envelope, ask.meta, metaBytesMax);
    const size =
      ask.fill === undefined ? { byteLength: 0 } : { shape: ask.shape, byteLength: ask.byteLength };
    slot.commit({ ...size, meta });
    this.#window.sent(number);
    this.#calls.set(number, call);
  }

  /**
   * The caller no longer waits: a request that is being filled is not sent, a sent one is
   * cancelled.
   */
  #giveUp(call: Call): void {
    call.giveUp();
    // The reply may have envelope in this same turn. Nobody else would release it.
    void call.outcome.then(
      (outcome) => outcome.kind === "reply" && outcome.reply.release(),
      () => {},
    );
    if (!this.#calls.delete(call.number)) return;
    this.#cancelled.push(call.number);
    this.#sendCancellations();
  }

  #sendCancellations(): void {
    if (this.#cancelled.length > 0 && this.#turns.tryTake()) void this.#cancel();
  }

  async #cancel(): Promise<void> {
    const { requests, facts } = this.#channels;
    try {
      for (
        let number = this.#cancelled.shift();
        number !== undefined;
        number = this.#cancelled.shift()
      ) {
        if (!this.#window.cancel(number)) continue;
        using slot = await requests.loan({ signal: this.#ended.signal });
        const { metaBytesMax } = facts.request;
        const envelope = { kind: "cancel", number } as const;
        const meta = encodeEnvelope(requests.label, envelope, undefined, metaBytesMax);
        slot.commit({ byteLength: 0, meta });
      }
    } catch (cause) {
      this.#endBy(cause);
    } finally {
      this.#endTurn();
    }
  }

  /** @throws CHANNEL_CORRUPT for a message that no worker sends */
  #receive(slot: ReceivedSlot): void {
    const { label } = this.#channels.replies;
    const envelope = new ReceivedEnvelope(label, slot.meta);
    const { kind, number } = envelope;
    const position = this.#window.answered(number);
    if (position === undefined) {
      throw new CudaIpcError(
        "CHANNEL_CORRUPT",
        `Cannot accept a reply of worker "${label}": no request ${number} is open`,
      );
    }
    const message = new ServiceMessage(slot, envelope);
    slot.onGivenBack(() => this.#released(position));
    const call = this.#calls.get(number);
    if (kind === "refused" || kind === "abandoned") this.#isLeaving = true;
    if (call !== undefined && kind === "reply") call.settle({ kind, reply: message });
    else {
      const report = kind === "failed" ? reportOf(message) : undefined;
      message.release();
      call?.settle(outcomeOf(label, kind, report));
    }
    // Last, because the end of the link settles the calls that are left.
    this.#calls.delete(number);
    this.#events.onRoom();
  }

  #released(position: number): void {
    this.#window.givenBack(position);
    if (this.open) this.#events.onRoom();
    else if (this.#window.held === 0) this.#settle();
  }

  #endTurn(): void {
    this.#turns.end();
    this.#sendCancellations();
    if (this.open) this.#events.onRoom();
  }

  /** @param tell settles each call that was not answered */
  #end(tell: (call: Call) => void): void {
    if (!this.open) return;
    this.#ended.abort();
    this.#cancelled.length = 0;
    // The call that is being filled is settled later: its callback still runs, and must end before
    // it runs again.
    this.#filling?.giveUp();
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    // Replies that are held were answered and belong to the caller, so their channel stays open.
    const settle = () => (this.#window.held === 0 ? this.#settle() : undefined);
    const told = calls.map((call) => () => tell(call));
    const close = () => this.#closeRequests();
    releaseAll([close, () => this.#events.onEnd(this), settle, ...told]);
  }

  /** The stream of a lost device refuses the slot that is being filled. The callback is told. */
  #closeRequests(): void {
    try {
      this.#channels.requests.close();
    } catch (error) {
      if (!hasCode(error, "DEVICE_LOST")) throw error;
    }
  }

  #settle(): void {
    releaseAll([() => this.#channels.replies.close(), () => this.#events.onSettled(this)]);
  }
}
