/** The slot that a writer has lent, one at a time, and what becomes of it: its message is sent, dropped, or passed over. */
// WHY imported: the global is looked up anew each time.
import { performance } from "node:perf_hooks";
import type { DType } from "../array/dtype.js";
import { flags } from "../ring/channel-layout.js";
import type { RingWriter } from "../ring/ring-writer.js";
import type { WriterParts } from "./channel-parts.js";
import type { FilledSlots } from "./filled-slots.js";
import {
  type CommitOptions,
  isWholeSlot,
  type Loan,
  LoanedSlot,
  type LoanOwner,
  type PreparedMessage,
} from "./loaned-slot.js";
import { encodeMeta, writeMeta } from "./message-meta.js";
import { sizeOfMessage } from "./message-size.js";
import { checkStream } from "./ordered-timeline.js";

const TIME_ORIGIN_MS = performance.timeOrigin;

export class SlotLoans<D extends DType = DType> implements LoanOwner {
  readonly label: string;
  readonly #parts: WriterParts<D>;
  readonly #ring: RingWriter;
  readonly #filled: FilledSlots;
  readonly #epoch: number;
  readonly #wholeSlot: PreparedMessage;
  readonly #byCpu: (Loan | undefined)[] = [];
  #lent: LoanedSlot<D> | undefined;

  constructor(parts: WriterParts<D>, ring: RingWriter, filled: FilledSlots) {
    const { label, words } = parts;
    this.label = label;
    this.#parts = parts;
    this.#ring = ring;
    this.#filled = filled;
    this.#epoch = words.epoch;
    this.#wholeSlot = { byteLength: words.facts.slotBytes, readyAt: 0, flags: 0, metaBytes: 0 };
  }

  get isLent(): boolean {
    return this.#lent !== undefined;
  }

  /** To be filled by the CPU. */
  lendSlot(slot: number): LoanedSlot<D> {
    // WHY kept: each message would make one more otherwise.
    this.#byCpu[slot] ??= { slot, stream: undefined, dropped: false };
    return this.lend(this.#byCpu[slot]);
  }

  lend(loan: Loan): LoanedSlot<D> {
    this.#lent = new LoanedSlot(this, this.#parts.memory, loan);
    return this.#lent;
  }

  /** Takes back what is lent. */
  close(): void {
    this.#lent?.close();
  }

  prepare(loan: Loan, options: CommitOptions): PreparedMessage {
    // WHY apart: most messages say nothing of themselves, and small ones take less time than all the questions below.
    if (isWholeSlot(options) && loan.stream === undefined && !this.#filled.any) return this.#wholeSlot;
    const { words } = this.#parts;
    const { dropped, slot: index, stream: filledBy } = loan;
    const stream = checkStream(options.stream) ?? filledBy;
    const { byteLength, shape } = sizeOfMessage(this.label, this.#parts.memory.facts, options);
    const { metaBytesMax } = words.facts;
    const meta = options.meta === undefined ? undefined : encodeMeta(this.label, options.meta, metaBytesMax);
    if (dropped) return this.#wholeSlot;
    let found = meta === undefined ? 0 : writeMeta(words, index, meta);
    if (shape !== undefined) {
      words.setShape(index, shape);
      found |= flags.shaped;
    }
    const readyAt = stream === undefined ? 0 : this.#filled.byStream(index, stream, this.#ring.position + 1);
    if (stream === undefined) this.#filled.byCpu(index);
    const metaBytes = meta?.bytes.byteLength ?? 0;
    return { byteLength, readyAt, flags: found, metaBytes };
  }

  send(loan: Loan, message: PreparedMessage): number | undefined {
    this.#lent = undefined;
    if (loan.dropped) {
      this.#ring.drop();
      return undefined;
    }
    const { byteLength, readyAt, flags: found, metaBytes } = message;
    const timestampMs = TIME_ORIGIN_MS + performance.now();
    return this.#ring.commit({ timestampMs, byteLength, readyAt, epoch: this.#epoch, flags: found, metaBytes });
  }

  abort({ stream, slot, dropped }: Loan): void {
    this.#lent = undefined;
    if (stream === undefined || dropped || !stream.open) return;
    // WHY: the stream may still write to the slot, which the next message would share with it.
    this.#filled.byStream(slot, stream, this.#ring.position + 1);
    this.#ring.passOver();
  }
}
