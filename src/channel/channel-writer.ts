/**
 * Writes to a channel: one slot at a time is lent, filled and committed. What happens where no slot is free is the channel's policy; what
 * waits for whom on a GPU is said to the streams, and the CPU waits for none of them.
 */
import type { WritableStream } from "node:stream/web";
import type { DType } from "../array/dtype.js";
import { checkInteger } from "../base/bytes.js";
import { checkNotAborted, Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError, hasCode } from "../base/errors.js";
import { optionsOf, waitChecks } from "../base/option-checks.js";
import { retryPause } from "../base/retry-pause.js";
import { releaseAll } from "../base/scope.js";
import { nextTurn, waitUntil } from "../gpu/adaptive-wait.js";
import type { Device } from "../gpu/device.js";
import type { Stream } from "../gpu/stream.js";
import { ringBell } from "../os/bell.js";
import { page, type WhenFull } from "../ring/channel-layout.js";
import { PageWords } from "../ring/page-words.js";
import { RingWriter } from "../ring/ring-writer.js";
import { BellWatch } from "./bell-watch.js";
import type { WriterParts } from "./channel-parts.js";
import { FairTurns } from "./fair-turns.js";
import { FilledSlots } from "./filled-slots.js";
import type { LoanedSlot, LoanOptions } from "./loaned-slot.js";
import { checkStream, enqueueWait, OrderedTimeline } from "./ordered-timeline.js";
import { ReaderWords, type WhoReads } from "./reader-words.js";
import { SleeperLoss } from "./sleeper-loss.js";
import { SlotLoans } from "./slot-loans.js";
import { type StreamableMessage, writableOf } from "./web-streams.js";

const checkWaitOptions = optionsOf<WaitOptions>("waitForReaders()", waitChecks);

export class ChannelWriter<D extends DType = DType> {
  readonly label: string;
  readonly #parts: WriterParts<D>;
  readonly #ring: RingWriter;
  readonly #ready: OrderedTimeline;
  readonly #room: BellWatch;
  readonly #onClose: () => void;
  readonly #loss: SleeperLoss;
  readonly #filled: FilledSlots;
  readonly #loans: SlotLoans<D>;
  readonly #readerWords: ReaderWords;
  readonly #turns = new FairTurns();
  /** Whether a loan is under way. */
  #isAwaited = false;
  /** When it was closed. */
  #dropped = 0;
  #open = true;
  #endsChannel = true;

  /**
   * Takes over the parts, of a new channel or of one that this writer goes on with.
   * @param onClose called once when it is closed and its streams are done
   * @param whoReads for the words of errors
   */
  constructor(parts: WriterParts<D>, onClose: () => void, whoReads: WhoReads = async () => new Map()) {
    const { label, words, control, places, roomBell } = parts;
    this.label = label;
    this.#parts = parts;
    this.#onClose = onClose;
    this.#readerWords = new ReaderWords(whoReads);
    const pages = places.map(({ page }) => new PageWords(page.cpu.buffer));
    this.#ring = new RingWriter(words, pages, (place) => this.#ringFor(place));
    this.#room = new BellWatch(roomBell);
    this.#loss = new SleeperLoss(parts.memory.buffer.device, () => ringBell(roomBell));
    const line = words.readyOffset(words.epoch);
    this.#ready = new OrderedTimeline(`${label}: ready`, control.retain(), line, () => this.#onSettled());
    this.#filled = new FilledSlots(this.#ready, words.facts.slots);
    this.#loans = new SlotLoans(parts, this.#ring, this.#filled);
  }

  get device(): Device {
    return this.#parts.memory.buffer.device;
  }

  get open(): boolean {
    return this.#open;
  }

  get slots(): number {
    return this.#parts.words.facts.slots;
  }

  get whenFull(): WhenFull {
    return this.#parts.words.facts.whenFull;
  }

  /** Readers that are there now: those that closed, died or were expelled do not count. */
  get readers(): number {
    return this.#open ? this.#ring.liveReaders().length : 0;
  }

  /** Messages that were not written since no slot was free. */
  get dropped(): number {
    return this.#open ? this.#parts.words.dropped : this.#dropped;
  }

  /** Messages that were committed, by this writer and those before it. */
  get committed(): number {
    return this.#ring.sequence;
  }

  /**
   * A slot to be filled, at once: undefined where none is free (and with "drop-newest" the message is counted as dropped). One slot is lent
   * at a time. Without a stream, a slot on which a reader's stream, or the one that filled it last, is still at work is not free: the CPU would
   * have to wait. With one it is, and the stream waits; but for what readers that may be overtaken hold.
   * @throws CLOSED, IN_USE where another slot is lent or waited for
   */
  tryLoan(options: { readonly stream?: Stream | undefined } = {}): LoanedSlot<D> | undefined {
    this.#checkMayLoan();
    const slot = this.#reserve(checkStream(options.stream));
    if (slot === undefined && this.whenFull === "drop-newest") this.#ring.drop();
    return slot;
  }

  /**
   * A slot to be filled. Where none is free: waits ("wait"; "drop-oldest" only where readers hold every slot), throws CHANNEL_FULL
   * ("error"), or lends memory that nobody sees ("drop-newest"). What is free is as with `tryLoan`.
   * @throws CLOSED, IN_USE where another slot is lent or waited for, TIMEOUT, ABORTED, CHANNEL_FULL; DEVICE_LOST if the device is lost
   * meanwhile
   */
  async loan(options: LoanOptions = {}): Promise<LoanedSlot<D>> {
    this.#checkMayLoan();
    checkNotAborted(`write to channel "${this.label}"`, options);
    const stream = checkStream(options.stream);
    const pause = this.#turns.turn();
    const slot = pause === undefined ? this.#reserve(stream) : undefined;
    if (slot !== undefined) return slot;
    this.#isAwaited = true;
    try {
      await pause;
      this.#checkOpen();
      return this.#reserve(stream) ?? (await this.#whenFull(options));
    } finally {
      this.#isAwaited = false;
    }
  }

  /**
   * Resolves once the channel has this many readers, such as before the first message. Without a
   * time limit it waits for as long as that takes.
   * @throws TIMEOUT, which names the readers that came; ABORTED, CLOSED; RangeError for more than
   * can come
   */
  async waitForReaders(count: number, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    const { readersMax } = this.#parts.words.facts;
    checkInteger("count", count, 0, readersMax);
    const attempt = `wait for ${count} ${count === 1 ? "reader" : "readers"} of channel "${this.label}"`;
    checkNotAborted(attempt, options);
    const deadline = new Deadline(attempt, options, Number.POSITIVE_INFINITY);
    for (;;) {
      this.#checkOpen();
      if (this.readers >= count) return;
      try {
        // WHY: nothing rings when a reader comes.
        await retryPause(deadline);
      } catch (error) {
        if (!hasCode(error, "TIMEOUT") || !this.#open) throw error;
        const readers = this.#ring.liveReaders();
        const came = readers.length === 0 ? "" : `: ${await this.#readerWords.present(readers)}`;
        throw deadline.timedOut(`${readers.length} of ${count} came${came}`);
      }
    }
  }

  /**
   * Ends the channel: readers get what was committed, and then the end. Where it waits for writers, the next one goes on instead. What is
   * lent is given back. Streams may still have messages to finish: the memory is kept until they have.
   */
  close(): void {
    if (!this.#open) return;
    this.#endsChannel = this.#parts.words.facts.whenWriterGone === "end";
    this.#close();
  }

  /** Ends the channel, also where it would wait for another writer. */
  end(): void {
    if (!this.#open) return;
    this.#endsChannel = true;
    this.#close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /**
   * A stream that sends what is written to it, each chunk as a message; `Writable.fromWeb` with `objectMode` makes one of Node's. It waits for slots as `loan`
   * does, and closes this writer at its end, where it fails and where it is aborted.
   */
  toWeb(): WritableStream<StreamableMessage<D>> {
    this.#checkOpen();
    return writableOf(this);
  }

  /**
   * Looks whether its streams have done what was still to come when it was closed.
   * @internal
   */
  settle(): void {
    this.#ready.settle();
  }

  /** Undefined where no slot is free by now. */
  #reserve(stream: Stream | undefined): LoanedSlot<D> | undefined {
    const ring = this.#ring;
    if (!ring.reserve() || !this.#orderAfterOthers(stream)) return undefined;
    const { slot } = ring;
    return stream === undefined ? this.#loans.lendSlot(slot) : this.#loans.lend({ slot, stream, dropped: false });
  }

  /** Sees to it that the slot is written to after all who use it on a GPU; false where the CPU would have to wait for them. */
  #orderAfterOthers(stream: Stream | undefined): boolean {
    if (!this.#filled.any && !this.#ring.anyGpuReleases) return true;
    let ordered = this.#filled.orderAfter(this.#ring.slot, stream);
    this.#ring.pendingReleases((place, value) => {
      const words = this.#parts.places[place]?.page;
      if (stream === undefined || words === undefined) ordered = false;
      else enqueueWait(stream, words, page.done, value);
    });
    return ordered;
  }

  async #whenFull(options: LoanOptions): Promise<LoanedSlot<D>> {
    const { whenFull, slots } = this;
    if (whenFull === "drop-newest") return this.#loans.lend({ slot: slots, stream: options.stream, dropped: true });
    if (whenFull === "error") {
      const found = `all of its ${slots} slots are taken`;
      throw new CudaIpcError("CHANNEL_FULL", `Cannot write to channel "${this.label}": ${found}`);
    }
    const deadline = new Deadline(`write to channel "${this.label}"`, options, Number.POSITIVE_INFINITY);
    const streamsAreDone = () => !this.#open || !this.#ring.reserve() || this.#orderAfterOthers(options.stream);
    for (;;) {
      try {
        deadline.check();
        // WHY two ways: readers ring, streams cannot.
        if (this.#ring.reserve()) await waitUntil(streamsAreDone, deadline, undefined, this.device);
        else await this.#readersMadeRoom(deadline);
      } catch (error) {
        throw hasCode(error, "TIMEOUT") && this.#open ? deadline.timedOut(await this.#whyFull()) : error;
      }
      this.#checkOpen();
      this.#loss.check();
      const slot = this.#reserve(options.stream);
      if (slot !== undefined) return slot;
    }
  }

  async #whyFull(): Promise<string> {
    if (this.#ring.reserve()) return "streams that use the next slot have not finished with it";
    return await this.#readerWords.late(this.#ring.liveReaders(), this.slots);
  }

  async #readersMadeRoom(deadline: Deadline): Promise<void> {
    this.#ring.fallAsleep();
    try {
      // WHY asked again: a reader may have given a slot back before it could see that this side sleeps.
      if (this.#ring.reserve()) await nextTurn();
      // WHY asked again and again: a stream that gives a slot back cannot ring.
      else if (this.#isHeldByStreams()) {
        await waitUntil(() => !this.#open || this.#ring.reserve(), deadline, undefined, this.device);
      } else await this.#room.heard(deadline);
    } finally {
      // SAFETY: the words are unmapped where it was closed.
      if (this.#open) this.#ring.wakeUp();
    }
  }

  #isHeldByStreams(): boolean {
    let isHeld = false;
    this.#ring.pendingHolds(() => {
      isHeld = true;
    });
    return isHeld;
  }

  #ringFor(place: number): void {
    const parts = this.#parts.places[place];
    if (parts !== undefined) ringBell(parts.bell);
  }

  #close(): void {
    const { words } = this.#parts;
    releaseAll([
      () => this.#loans.close(),
      () => {
        this.#open = false;
        this.#dropped = words.dropped;
        if (this.#endsChannel) words.setState("closed");
        this.#ring.wake();
      },
      () => this.#loss.close(),
      () => this.#room.close(),
      () => this.#ready.close(),
    ]);
  }

  /** Its streams have signalled all that they will. */
  #onSettled(): void {
    if (!this.#endsChannel) this.#parts.words.setState("awaited");
    releaseAll([() => this.#ring.wake(), () => this.#parts.close(), this.#onClose]);
  }

  #checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot write to channel "${this.label}": it was closed`);
  }

  #checkMayLoan(): void {
    this.#checkOpen();
    if (!this.#loans.isLent && !this.#isAwaited) return;
    const found = this.#isAwaited ? "another one is waited for" : "another one is lent; commit or close it first";
    throw new CudaIpcError("IN_USE", `Cannot lend a slot of channel "${this.label}": ${found}`);
  }
}
