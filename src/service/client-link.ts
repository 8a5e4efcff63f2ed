/**
 * A client's side of one link: sends requests to one worker, one slot at a time, and hears what becomes of them. It ends when the worker
 * closes its side or dies; replies that are held stay as they are until they are released.
 */
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import type { ChannelReader } from "../channel/channel-reader.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { LoanedSlot } from "../channel/loaned-slot.js";
import type { ReceivedSlot } from "../channel/received-slot.js";
import type { Hub } from "../client/hub.js";
import type { Stream } from "../gpu/stream.js";
import { type Ask, Call, type Outcome } from "./client-call.js";
import { Arrived, encodeEnvelope, monotonicMicros } from "./envelope.js";
import { LinkWindow } from "./link-window.js";
import type { ServiceFacts } from "./service-facts.js";
import { ServiceMessage, SlotToFill } from "./service-message.js";
import { Turns } from "./turns.js";
import { processOf } from "./worker-process.js";

export interface ClientChannels {
  readonly worker: string;
  readonly requests: ChannelWriter;
  readonly replies: ChannelReader;
  readonly facts: ServiceFacts;
  readonly stream: Stream | undefined;
}

export interface ClientLinkEvents {
  /** It may take requests that it could not take before. */
  onRoom(): void;
  onEnd(link: ClientLink): void;
  /** It has ended, and no reply of it is held any more. */
  onSettled(link: ClientLink): void;
}

export class ClientLink {
  readonly worker: string;
  readonly #channels: ClientChannels;
  readonly #events: ClientLinkEvents;
  readonly #window: LinkWindow;
  readonly #turns = new Turns();
  readonly #ended = new AbortController();
  /** Committed, and somebody waits for them. */
  readonly #calls = new Map<number, Call>();
  readonly #cancelled: number[] = [];
  /** Being filled: one at a time. */
  #filling: Call | undefined;
  #lastNumber = 0;
  #process: string | undefined;
  /** The worker takes nothing any more. */
  #isLeaving = false;

  /** Takes over both channels. */
  constructor(channels: ClientChannels, events: ClientLinkEvents) {
    this.worker = channels.worker;
    this.#channels = channels;
    this.#events = events;
    this.#window = new LinkWindow(channels.facts.depth);
  }

  get open(): boolean {
    return !this.#ended.signal.aborted;
  }

  /** What its worker has to do for this client. */
  get load(): number {
    return this.#window.underWay + (this.#turns.areFree ? 0 : 1);
  }

  /** Its worker for errors: the process if the hub says so at once, or else what it is called. */
  async workerWords(hub: Hub): Promise<string> {
    this.#process ??= await processOf(hub, this.#channels.replies.label);
    return this.#process ?? this.worker;
  }

  get hasRoom(): boolean {
    return this.open && !this.#isLeaving && this.#turns.areFree && this.#window.canSend;
  }

  /** Puts the room for one request by: for `send`, or to be given back. */
  reserve(): void {
    this.#turns.tryTake();
  }

  giveBack(): void {
    this.#endTurn();
  }

  /**
   * Sends a request, for which room was put by, and waits for what becomes of it.
   * @throws TIMEOUT, ABORTED, CLOSED where the client was closed, and what its filling throws
   */
  send(ask: Ask, deadline: Deadline): Promise<Outcome> {
    this.#lastNumber += 1;
    const call = new Call(this.#lastNumber, ask);
    void this.#fill(call, deadline);
    return deadline.race(call.outcome, () => this.#giveUp(call));
  }

  /** Hears the worker until the link ends. */
  async listen(): Promise<void> {
    try {
      for (;;) {
        const slot = await this.#channels.replies.next();
        // WHY "elsewhere": a worker that closes has told what became of all that it had begun.
        if (slot === undefined) break;
        this.#hear(slot);
      }
      this.#end((call) => call.settle({ kind: "elsewhere" }));
    } catch (cause) {
      this.#endBy(cause);
    }
  }

  /** WHY two ways: on a device that is lost this client cannot take a request to another worker either. */
  #endBy(cause: unknown): void {
    if (hasCode(cause, "DEVICE_LOST")) this.#end((call) => call.fail(cause));
    else this.#end((call) => call.settle({ kind: "gone", cause }));
  }

  /** Ends the link, and with it all replies that are held. */
  close(): void {
    const closed = () => new CudaIpcError("CLOSED", "Cannot wait for a reply: the client of the service was closed");
    releaseAll([() => this.#end((call) => call.fail(closed())), () => this.#settle()]);
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
      if (slot?.open) {
        slot.close();
        if (stream !== undefined) this.#window.passedOver();
      }
      this.#endTurn();
    }
  }

  #commit(call: Call, slot: LoanedSlot, deadline: Deadline): void {
    const { requests, facts } = this.#channels;
    const { number, ask } = call;
    const { metaBytesMax } = facts.request;
    const remainingMicros = Math.ceil(deadline.remainingMs * 1000);
    const deadlineMicros = Number.isSafeInteger(remainingMicros) ? monotonicMicros() + remainingMicros : undefined;
    const meta = encodeEnvelope(requests.label, { kind: "request", number, deadlineMicros }, ask.meta, metaBytesMax);
    const size = ask.fill === undefined ? { byteLength: 0 } : { shape: ask.shape, byteLength: ask.byteLength };
    slot.commit({ ...size, meta });
    this.#window.sent(number);
    this.#calls.set(number, call);
  }

  /** Nobody waits for it: what is being filled is not sent, and what was sent is cancelled. */
  #giveUp(call: Call): void {
    call.giveUp();
    // WHY: its reply may have come in this very step, and nobody else gives it back.
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
      for (let number = this.#cancelled.shift(); number !== undefined; number = this.#cancelled.shift()) {
        if (!this.#window.cancel(number)) continue;
        using slot = await requests.loan({ signal: this.#ended.signal });
        const { metaBytesMax } = facts.request;
        const meta = encodeEnvelope(requests.label, { kind: "cancel", number }, undefined, metaBytesMax);
        slot.commit({ byteLength: 0, meta });
      }
    } catch (cause) {
      this.#endBy(cause);
    } finally {
      this.#endTurn();
    }
  }

  /** @throws CHANNEL_CORRUPT for what no worker says */
  #hear(slot: ReceivedSlot): void {
    const { label } = this.#channels.replies;
    const arrived = new Arrived(label, slot.meta);
    const { kind, number } = arrived;
    const place = this.#window.answered(number);
    if (place === undefined) {
      throw new CudaIpcError("CHANNEL_CORRUPT", `Cannot take a reply of "${label}": no request ${number} is under way`);
    }
    const message = new ServiceMessage(slot, arrived, () => this.#givenBack(place));
    const call = this.#calls.get(number);
    this.#calls.delete(number);
    if (kind === "refused") this.#isLeaving = true;
    if (call !== undefined && kind === "reply") call.settle({ kind, reply: message });
    else {
      const report = kind === "failed" ? reportOf(message) : undefined;
      message.release();
      call?.settle(outcomeOf(label, kind, report));
    }
    this.#events.onRoom();
  }

  #givenBack(place: number): void {
    this.#window.givenBack(place);
    if (this.open) this.#events.onRoom();
    else if (this.#window.held === 0) this.#settle();
  }

  #endTurn(): void {
    this.#turns.end();
    this.#sendCancellations();
    if (this.open) this.#events.onRoom();
  }

  /** @param tell what becomes of a call that was not answered */
  #end(tell: (call: Call) => void): void {
    if (!this.open) return;
    this.#ended.abort();
    this.#cancelled.length = 0;
    // WHY it alone is not told yet: what fills it goes on, and may be called anew only once it is done.
    this.#filling?.giveUp();
    const calls = [...this.#calls.values()];
    this.#calls.clear();
    // WHY not what is held: it was answered, and belongs to who asked.
    const settle = () => (this.#window.held === 0 ? this.#settle() : undefined);
    const { requests } = this.#channels;
    const told = calls.map((call) => () => tell(call));
    releaseAll([() => requests.close(), () => this.#events.onEnd(this), settle, ...told]);
  }

  #settle(): void {
    releaseAll([() => this.#channels.replies.close(), () => this.#events.onSettled(this)]);
  }
}

function reportOf(message: ServiceMessage): unknown {
  try {
    return message.json;
  } catch {
    // It failed, whatever the worker says of it.
    return undefined;
  }
}

/** @throws CHANNEL_CORRUPT */
function outcomeOf(label: string, kind: Arrived["kind"], report: unknown): Outcome {
  if (kind === "failed") return { kind, report };
  if (kind === "refused") return { kind: "elsewhere" };
  if (kind === "dropped" || kind === "reply") return { kind: "dropped" };
  const cause = new CudaIpcError("PEER_GONE", `Worker "${label}" was closed before it was done`);
  if (kind === "abandoned") return { kind: "gone", cause };
  throw new CudaIpcError("CHANNEL_CORRUPT", `Cannot take a reply of "${label}": its kind is "${kind}"`);
}
