/**
 * The reply to one request while the handler makes it. The slot is loaned only when the handler
 * asks for it, because a channel loans one slot at a time and a slow handler must not hold up the
 * others.
 */
import type { DType } from "../array/dtype.js";
import { optionsOf } from "../base/option-checks.js";
import { shownValue } from "../base/shown-value.js";
import type { ChannelWriter } from "../channel/channel-writer.js";
import { type CommitOptions, commitChecks, type LoanedSlot } from "../channel/loaned-slot.js";
import type { Stream } from "../gpu/order/stream.js";
import { type Envelope, encodeEnvelope } from "./envelope.js";
import { SlotToFill } from "./service-message.js";
import type { Turns } from "./turns.js";

/** Sent with a reply: its meta, and `shape` or `byteLength` if it does not fill its slot. */
export type ReplyOptions = CommitOptions;

const checkReply = optionsOf<ReplyOptions>("The reply", commitChecks);

/**
 * Checks what a handler returned.
 * @throws TypeError, RangeError for anything but nothing or reply options
 */
export function checkedReply(result: unknown): ReplyOptions | undefined {
  if (result === undefined || result === null) return undefined;
  if (Object.prototype.toString.call(result) !== "[object Object]") {
    throw new TypeError(
      "The handler must return nothing, or options of the reply such as { meta }, " +
        `not ${shownValue(result)}. Write data into the slot of reply.loan().`,
    );
  }
  checkReply(result);
  return result;
}

/** How a link loans slots for replies. */
export interface ReplySlots<D extends DType = DType> {
  readonly writer: ChannelWriter<D>;
  readonly turns: Turns;
  readonly stream: Stream | undefined;
  readonly metaBytesMax: number;
  readonly reportBytesMax: number;
  /** False for a service whose replies have only meta. */
  readonly hasData: boolean;
  /** Aborted when the link ends. */
  readonly signal: AbortSignal;
}

export class ReplySlot<D extends DType = DType> {
  readonly #from: ReplySlots<D>;
  #loaned: Promise<LoanedSlot<D>> | undefined;
  #slot: LoanedSlot<D> | undefined;
  #toFill: SlotToFill<D> | undefined;
  #open = true;

  constructor(from: ReplySlots<D>) {
    this.#from = from;
  }

  /**
   * Returns the slot to fill. It is sent when the handler returns. Other replies to the same client
   * wait until then. Without a loan the reply has only meta.
   * @throws CLOSED; ABORTED if the client is gone; TypeError if the service has no `reply`
   */
  async loan(): Promise<SlotToFill<D>> {
    if (!this.#from.hasData) {
      throw new TypeError(
        "Cannot loan a reply slot: this service replies with meta only. " +
          "Give serve() the option reply.",
      );
    }
    const slot = await this.#loan();
    this.#toFill ??= new SlotToFill(slot);
    return this.#toFill;
  }

  /** For the service: whether the handler has a slot that was not sent. @internal */
  get isLoaned(): boolean {
    return this.#slot?.open === true;
  }

  /**
   * For the service: sends the reply.
   * @throws MESSAGE_TOO_LARGE, TypeError, RangeError, and the errors of `loan`
   * @internal
   */
  async commit(envelope: Envelope, options: ReplyOptions): Promise<void> {
    const { writer, metaBytesMax, reportBytesMax } = this.#from;
    const bytesMax = envelope.kind === "reply" ? metaBytesMax : reportBytesMax;
    const meta = encodeEnvelope(writer.label, envelope, options.meta, bytesMax);
    const hasData = this.#loaned !== undefined;
    if (!hasData && (options.shape !== undefined || (options.byteLength ?? 0) > 0)) {
      throw new TypeError(
        "Cannot send a reply of that size: it has no slot. Get one with reply.loan().",
      );
    }
    // A slot that is there is committed at once: nobody closes it meanwhile.
    const slot = this.#slot ?? (await this.#loan());
    slot.commit(hasData ? { ...options, meta } : { meta, byteLength: 0 });
    this.close();
  }

  /** Returns an unsent slot, and passes the turn to the next reply. */
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
    this.#loaned ??= this.#takeSlot();
    return this.#loaned;
  }

  async #takeSlot(): Promise<LoanedSlot<D>> {
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
    // This reply was closed while it waited for the slot. The caller gets a closed slot.
    this.#open = true;
    this.close();
    return slot;
  }
}
