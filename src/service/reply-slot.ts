/**
 * The reply to one request while it is being made. A slot is lent when the handler asks for it, and not before: a channel lends one at a
 * time, and a handler that thinks must not hold up those that are done.
 */
import type { DType } from "../array/dtype.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import type { CommitOptions, LoanedSlot } from "../channel/loaned-slot.js";
import type { Stream } from "../gpu/stream.js";
import { type Envelope, encodeEnvelope } from "./envelope.js";
import { SlotToFill } from "./service-message.js";
import type { Turns } from "./turns.js";

/** What goes with a reply; its `shape` or `byteLength` where it does not fill its slot. */
export type ReplyOptions = CommitOptions;

/** How the slots of a link's replies are lent. */
export interface ReplySlots<D extends DType = DType> {
  readonly writer: ChannelWriter<D>;
  readonly turns: Turns;
  readonly stream: Stream | undefined;
  readonly metaBytesMax: number;
  /** False for a service that answers with meta alone. */
  readonly hasData: boolean;
  /** Aborted when the link ends. */
  readonly signal: AbortSignal;
}

export class ReplySlot<D extends DType = DType> {
  readonly #from: ReplySlots<D>;
  #lent: Promise<LoanedSlot<D>> | undefined;
  #slot: LoanedSlot<D> | undefined;
  #toFill: SlotToFill<D> | undefined;
  #open = true;

  constructor(from: ReplySlots<D>) {
    this.#from = from;
  }

  /**
   * The slot to be filled, which is sent when the handler is done; others of the same client wait for theirs until then. A reply for which
   * none is asked for has no data, and meta alone.
   * @throws CLOSED, ABORTED where the client is gone; TypeError where the service has no `reply`
   */
  async loan(): Promise<SlotToFill<D>> {
    if (!this.#from.hasData) {
      throw new TypeError("this service answers with meta alone: give serve() the option reply to send an array");
    }
    const slot = await this.#loan();
    this.#toFill ??= new SlotToFill(slot);
    return this.#toFill;
  }

  /** For the service: sends it. @throws MESSAGE_TOO_LARGE, TypeError, RangeError, as `loan` */
  async commit(envelope: Envelope, options: ReplyOptions): Promise<void> {
    const { writer, metaBytesMax } = this.#from;
    const meta = encodeEnvelope(writer.label, envelope, options.meta, metaBytesMax);
    const hasData = this.#lent !== undefined;
    if (!hasData && (options.shape !== undefined || (options.byteLength ?? 0) > 0)) {
      throw new TypeError("a reply without a slot has no shape and no bytes: ask for one with reply.loan()");
    }
    const slot = await this.#loan();
    slot.commit(hasData ? { ...options, meta } : { meta, byteLength: 0 });
    this.close();
  }

  /** Gives the slot back where it was not sent, and the turn to the next. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    const slot = this.#slot;
    if (slot === undefined) return;
    try {
      slot.close();
    } finally {
      this.#from.turns.end();
    }
  }

  #loan(): Promise<LoanedSlot<D>> {
    this.#lent ??= this.#lend();
    return this.#lent;
  }

  async #lend(): Promise<LoanedSlot<D>> {
    const { writer, turns, stream, signal } = this.#from;
    await turns.take();
    let slot: LoanedSlot<D>;
    try {
      slot = await writer.loan({ stream, signal });
    } catch (error) {
      turns.end();
      throw error;
    }
    this.#slot = slot;
    if (this.#open) return slot;
    // WHY returned: whoever asked for it was given up meanwhile, and finds it closed.
    this.#open = true;
    this.close();
    return slot;
  }
}
