/** The slot that a writer has loaned: filled, then committed once or given back unused. */
// WHY imported: the global is looked up anew at each use.
import { performance } from "node:perf_hooks";
import type { DType } from "../array/dtype.js";
import type { WaitOptions } from "../base/deadline.js";
import { CudaIpcError } from "../base/errors.js";
import {
  type Check,
  type Checks,
  checkShape,
  integer,
  optionsOf,
  waitChecks,
} from "../base/option-checks.js";
import type { DeviceArray } from "../gpu/arrays/device-array.js";
import { aStream } from "../gpu/option-checks.js";
import type { Stream } from "../gpu/order/stream.js";
import { flags } from "../ring/channel-layout.js";
import type { RingWriter } from "../ring/ring-writer.js";
import { points } from "./channel-diagnostics.js";
import type { WriterParts } from "./channel-parts.js";
import { encodeMeta, type Meta, writeMeta } from "./message-meta.js";
import type { OrderedTimeline } from "./ordered-timeline.js";
import { type SlotMemory, sizeOfMessage } from "./slot-memory.js";

export interface LoanOptions extends WaitOptions {
  /**
   * The stream that fills the slot. It waits on the GPU for readers whose streams still use the
   * slot. Without a stream the CPU waits for them. Pass the same stream to `commit`.
   */
  readonly stream?: Stream | undefined;
}

export interface CommitOptions {
  /** Bytes, or a value that travels as JSON; at most the channel's `metaBytesMax` bytes. */
  readonly meta?: Meta | undefined;
  /**
   * The message is ready when this stream has finished the work it was given by now. Without a
   * stream it is ready at once.
   */
  readonly stream?: Stream | undefined;
  /** The shape of a message that does not fill its slot, in elements of the channel's dtype. */
  readonly shape?: readonly number[] | undefined;
  /** The bytes of a message without a shape of its own; a whole number of elements. */
  readonly byteLength?: number | undefined;
}

const checkLoan = optionsOf<LoanOptions>("loan()", { ...waitChecks, stream: aStream });

/** Checks the options of a loan and returns its stream. */
export function streamOfLoan(options: LoanOptions): Stream | undefined {
  checkLoan(options);
  return options.stream;
}

const anyMeta: Check = () => {};
export const commitChecks: Checks<CommitOptions> = {
  meta: anyMeta,
  stream: aStream,
  shape: checkShape,
  byteLength: integer(0),
};

const checkCommit = optionsOf<CommitOptions>("commit()", commitChecks);

const WHOLE_SLOT: CommitOptions = {};
const TIME_ORIGIN_MS = performance.timeOrigin;

/** The header of a message, except its sequence number and its time. */
interface PreparedMessage {
  readonly byteLength: number;
  readonly readyAt: number;
  readonly flags: number;
  readonly metaBytes: number;
}

interface Loan {
  readonly slot: number;
  /** The stream that was passed to `loan`. Its work may already write to the slot. */
  readonly stream: Stream | undefined;
  readonly dropped: boolean;
}

export class LoanedSlot<D extends DType = DType> {
  readonly #loan: Loan;
  readonly #loans: SlotLoans<D>;
  readonly #memory: SlotMemory<D>;
  #array: DeviceArray<D> | undefined;
  #open = true;

  /** Use `writer.loan()`. */
  constructor(loans: SlotLoans<D>, memory: SlotMemory<D>, loan: Loan) {
    this.#loans = loans;
    this.#memory = memory;
    this.#loan = loan;
  }

  get open(): boolean {
    return this.#open;
  }

  /** True if no reader will see it, because every slot was taken and whenFull is "drop-newest". */
  get willBeDropped(): boolean {
    return this.#loan.dropped;
  }

  /** The whole slot as an array. It closes with the slot. */
  get array(): DeviceArray<D> {
    this.#checkOpen("use");
    this.#array ??= this.#memory.array(this.#loan.slot, undefined, this);
    return this.#array;
  }

  /**
   * The whole slot as bytes, on the host device. Do not write to them after the commit: nothing
   * stops you.
   * @throws UNSUPPORTED on a GPU
   */
  get bytes(): Uint8Array {
    this.#checkOpen("use");
    return this.#memory.bytes(this.#loan.slot, this.#memory.facts.slotBytes);
  }

  /**
   * Sends the message to the readers. Returns its sequence number, or undefined if it was dropped.
   * If it throws, nothing was sent and you can commit the slot again.
   * @throws CLOSED if it was committed or given back before; MESSAGE_TOO_LARGE, RangeError
   */
  commit(options: CommitOptions = WHOLE_SLOT): number | undefined {
    this.#checkOpen("commit");
    const message = this.#loans.prepare(this.#loan, options);
    // WHY first: a message must not be sent a second time, even if sending fails half-way.
    this.#open = false;
    const sequence = this.#loans.send(this.#loan, message);
    if (points.commit.hasSubscribers) {
      const { label: name } = this.#loans;
      points.commit.publish({ name, sequence, byteLength: message.byteLength, slot: this });
    }
    return sequence;
  }

  /** Gives the slot back without a message. Does nothing after `commit`. */
  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#loans.abort(this.#loan);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /** Nothing to note: a loan ends by `commit` or `close`. @internal */
  lend(): void {}

  #checkOpen(verb: string): void {
    if (this.#open) return;
    throw new CudaIpcError(
      "CLOSED",
      `Cannot ${verb} a slot of channel "${this.#loans.label}": it was committed or given back`,
    );
  }
}

/** The loans of one writer, one at a time. It sends, drops or passes over their messages. */
export class SlotLoans<D extends DType = DType> {
  readonly label: string;
  readonly #parts: WriterParts<D>;
  readonly #ring: RingWriter;
  readonly #ready: OrderedTimeline;
  readonly #epoch: number;
  readonly #wholeSlot: PreparedMessage;
  /** WHY kept: otherwise each message would allocate one more object. */
  readonly #byCpu: (Loan | undefined)[] = [];
  /** The value of `ready` at which each slot is filled. Undefined until a stream fills one. */
  #filledAt: Float64Array | undefined;
  #loaned: LoanedSlot<D> | undefined;

  /** @param ready the timeline of what the writer's streams have finished */
  constructor(parts: WriterParts<D>, ring: RingWriter, ready: OrderedTimeline) {
    const { label, words } = parts;
    this.label = label;
    this.#parts = parts;
    this.#ring = ring;
    this.#ready = ready;
    this.#epoch = words.epoch;
    this.#wholeSlot = { byteLength: words.facts.slotBytes, readyAt: 0, flags: 0, metaBytes: 0 };
  }

  get isLoaned(): boolean {
    return this.#loaned !== undefined;
  }

  /** A stream has filled a slot before. */
  get usesStreams(): boolean {
    return this.#filledAt !== undefined;
  }

  loan(slot: number, stream: Stream | undefined): LoanedSlot<D> {
    if (stream !== undefined) return this.#loan({ slot, stream, dropped: false });
    this.#byCpu[slot] ??= { slot, stream: undefined, dropped: false };
    return this.#loan(this.#byCpu[slot]);
  }

  /** Loans memory that no reader sees. */
  loanDropped(slot: number, stream: Stream | undefined): LoanedSlot<D> {
    return this.#loan({ slot, stream, dropped: true });
  }

  /**
   * Makes the stream wait for the stream that filled the slot before. Returns false if the CPU
   * would have to wait.
   */
  orderAfterFilling(slot: number, stream: Stream | undefined): boolean {
    const filledAt = this.#filledAt?.[slot] ?? 0;
    if (filledAt === 0) return true;
    if (stream === undefined) return this.#ready.timeline.reached(filledAt);
    this.#ready.waitOn(stream, filledAt);
    return true;
  }

  /** Takes back the slot that is loaned. */
  close(): void {
    this.#loaned?.close();
  }

  /** Does everything that can fail, and sends nothing. */
  prepare(loan: Loan, options: CommitOptions): PreparedMessage {
    // Most messages fill their slot and have no options, so they skip all checks below.
    if (options === WHOLE_SLOT && loan.stream === undefined && !this.usesStreams)
      return this.#wholeSlot;
    checkCommit(options);
    const { words } = this.#parts;
    const { dropped, slot, stream: filledBy } = loan;
    const { stream = filledBy } = options;
    const { byteLength, shape } = sizeOfMessage(this.label, this.#parts.memory.facts, options);
    const { metaBytesMax } = words.facts;
    const meta =
      options.meta === undefined ? undefined : encodeMeta(this.label, options.meta, metaBytesMax);
    if (dropped) return this.#wholeSlot;
    let found = meta === undefined ? 0 : writeMeta(words, slot, meta);
    if (shape !== undefined) {
      words.setShape(slot, shape);
      found |= flags.shaped;
    }
    const readyAt = stream === undefined ? 0 : this.#fillByStream(slot, stream);
    if (stream === undefined && this.#filledAt !== undefined) this.#filledAt[slot] = 0;
    const metaBytes = meta?.bytes.byteLength ?? 0;
    return { byteLength, readyAt, flags: found, metaBytes };
  }

  /** Returns the sequence number; undefined if the message is dropped. */
  send(loan: Loan, message: PreparedMessage): number | undefined {
    this.#loaned = undefined;
    if (loan.dropped) {
      this.#ring.drop();
      return undefined;
    }
    const { byteLength, readyAt, flags: found, metaBytes } = message;
    const timestampMs = TIME_ORIGIN_MS + performance.now();
    return this.#ring.commit({
      timestampMs,
      byteLength,
      readyAt,
      epoch: this.#epoch,
      flags: found,
      metaBytes,
    });
  }

  abort({ stream, slot, dropped }: Loan): void {
    this.#loaned = undefined;
    if (stream === undefined || dropped || !stream.open) return;
    // The stream may still write to the slot, so the next message must not get it.
    this.#fillByStream(slot, stream);
    this.#ring.passOver();
  }

  #loan(loan: Loan): LoanedSlot<D> {
    const slot = new LoanedSlot(this, this.#parts.memory, loan);
    this.#loaned = slot;
    if (points.loan.hasSubscribers) points.loan.publish({ name: this.label, slot });
    return slot;
  }

  /** Returns the value that `ready` reaches when the stream has finished with the slot. */
  #fillByStream(slot: number, stream: Stream): number {
    const value = this.#ring.position + 1;
    this.#ready.signal(stream, value);
    this.#filledAt ??= new Float64Array(this.#parts.words.facts.slots);
    this.#filledAt[slot] = value;
    return value;
  }
}
