/**
 * Writes to a channel: one slot at a time is loaned, filled and committed. The channel's `whenFull`
 * decides what happens if no slot is free. Streams wait for each other on the GPU. The CPU waits
 * for none of them.
 */
import type { WritableStream } from "node:stream/web";
import type { DType } from "../array/dtype.js";
import { checkInteger } from "../base/bytes.js";
import { checkNotAborted, Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError, hasCode, withCallers } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { optionsOf, waitChecks } from "../base/option-checks.js";
import { releaseAll } from "../base/scope.js";
import type { Device } from "../gpu/device.js";
import { nextTurn, waitUntil } from "../gpu/order/adaptive-wait.js";
import type { Stream } from "../gpu/order/stream.js";
import { ringBell } from "../os/bell.js";
import { page, type WhenFull } from "../ring/channel-layout.js";
import { PageWords } from "../ring/page-words.js";
import { RingWriter } from "../ring/ring-writer.js";
import { BellWatch, DeviceLossWatch } from "./bell-watch.js";
import { points } from "./channel-diagnostics.js";
import type { WriterParts } from "./channel-parts.js";
import { FairTurns } from "./hot/fair-turns.js";
import { type LoanedSlot, type LoanOptions, SlotLoans, streamOfLoan } from "./loaned-slot.js";
import { enqueueWait, OrderedTimeline } from "./ordered-timeline.js";
import { type ReaderNames, ReaderRoster } from "./reader-roster.js";
import { type StreamableMessage, writableOf } from "./web-streams.js";

const checkWaitOptions = optionsOf<WaitOptions>("waitForReaders()", waitChecks);

export class ChannelWriter<D extends DType = DType> {
  readonly label: string;
  readonly #parts: WriterParts<D>;
  readonly #ring: RingWriter;
  /** The positions that this writer's streams have finished. */
  readonly #ready: OrderedTimeline;
  readonly #room: BellWatch;
  readonly #onClose: () => void;
  readonly #loss: DeviceLossWatch;
  readonly #loans: SlotLoans<D>;
  readonly #roster: ReaderRoster;
  readonly #turns = new FairTurns();
  #isAwaited = false;
  /** As it was at the close. */
  #dropped = 0;
  #open = true;
  /** What becomes of the channel at the close; undefined if it waits for the next writer. */
  #endsAs: "closed" | "gone" | undefined = "closed";

  /**
   * Takes over the parts of a new channel, or of one that this writer continues.
   * @param onClose called once, when it is closed and its streams are done
   * @param names names the readers in errors
   */
  constructor(parts: WriterParts<D>, onClose: () => void, names?: ReaderNames) {
    const { label, words, control, seats, roomBell } = parts;
    this.label = label;
    this.#parts = parts;
    this.#onClose = onClose;
    const pages = seats.map(({ page }) => new PageWords(page.cpu.buffer));
    const ring = (seat: number) => seats[seat] && ringBell(seats[seat].bell);
    this.#ring = new RingWriter(words, pages, ring, (seat, lease) =>
      points.readerDied.publish({ name: label, seat, lease }),
    );
    this.#roster = new ReaderRoster(() => (this.#open ? this.#ring.liveReaders() : []), names);
    this.#room = new BellWatch(roomBell);
    this.#loss = new DeviceLossWatch(parts.memory.buffer.device, () => ringBell(roomBell));
    const line = words.readyOffset(words.epoch);
    this.#ready = new OrderedTimeline(`${label}: ready`, control.retain(), line, () =>
      this.#onSettled(),
    );
    this.#loans = new SlotLoans(parts, this.#ring, this.#ready);
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

  /** The readers attached now, without those that closed, died or were expelled. */
  get readers(): number {
    return this.#open ? this.#ring.liveReaders().length : 0;
  }

  /** Messages that were not written because no slot was free. */
  get dropped(): number {
    return this.#open ? this.#parts.words.dropped : this.#dropped;
  }

  /** Messages that were committed, by this writer and those before it. */
  get committed(): number {
    return this.#ring.sequence;
  }

  /**
   * Loans a slot at once. Returns undefined if none is free; with "drop-newest" the message then
   * counts as dropped. One slot is loaned at a time.
   *
   * Without a stream, a slot that a stream still reads or fills counts as taken. With a stream it
   * counts as free, and your stream waits. A slot that a lossy reader holds always counts as taken.
   * @throws CLOSED; IN_USE if another slot is loaned or waited for
   */
  tryLoan(options: { readonly stream?: Stream | undefined } = {}): LoanedSlot<D> | undefined {
    this.#checkMayLoan();
    const slot = this.#reserve(streamOfLoan(options));
    if (slot === undefined && this.whenFull === "drop-newest") this.#ring.drop();
    return slot;
  }

  /**
   * Loans a slot. If none is free, `whenFull` decides: "wait" waits, "drop-oldest" waits only if
   * readers hold every slot, "error" throws, and "drop-newest" loans memory that no reader sees.
   * The same slots count as free as for `tryLoan`.
   * @throws CLOSED, TIMEOUT, ABORTED, CHANNEL_FULL; IN_USE if another slot is loaned or waited for;
   * DEVICE_LOST if the device is lost meanwhile
   */
  async loan(options: LoanOptions = {}): Promise<LoanedSlot<D>> {
    this.#checkMayLoan();
    checkNotAborted(`write to channel "${this.label}"`, options);
    const stream = streamOfLoan(options);
    const pause = this.#turns.turn();
    const slot = pause === undefined ? this.#reserve(stream) : undefined;
    if (slot !== undefined) return slot;
    this.#isAwaited = true;
    try {
      await pause;
      this.#checkOpen();
      return this.#reserve(stream) ?? (await this.#whenFull(options));
    } catch (error) {
      throw withCallers(error);
    } finally {
      this.#isAwaited = false;
    }
  }

  /**
   * Resolves when the channel has this many readers. Waits without a limit unless you pass
   * `timeoutMs`.
   * @throws TIMEOUT, which names the readers that came; ABORTED, CLOSED; RangeError for more than
   * `readersMax`
   */
  async waitForReaders(count: number, options: WaitOptions = {}): Promise<void> {
    checkWaitOptions(options);
    checkInteger("count", count, 0, this.#parts.words.facts.readersMax);
    const readers = count === 1 ? "1 reader" : `${count} readers`;
    const attempt = `wait for ${readers} of channel "${this.label}"`;
    checkNotAborted(attempt, options);
    const deadline = new Deadline(attempt, options, Number.POSITIVE_INFINITY);
    await this.#roster.arrived(count, deadline, () => this.#checkOpen());
  }

  /**
   * Ends the channel: readers get all committed messages and then the end. With
   * `whenWriterGone: "wait"` the channel waits for the next writer instead. A loaned slot is given
   * back. The memory stays until streams have finished their messages.
   */
  close(): void {
    const { whenWriterGone } = this.#parts.words.facts;
    this.#close(whenWriterGone === "end" ? "closed" : undefined);
  }

  /** Ends the channel, also with `whenWriterGone: "wait"`. */
  end(): void {
    this.#close("closed");
  }

  /** Ends the channel as the death of this process would. @internal */
  abandon(): void {
    this.#close("gone");
  }

  /** Gives the next message this number. All readers miss those in between. @internal */
  goTo(sequence: number): void {
    this.#checkOpen();
    this.#ring.goTo(sequence);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /**
   * A stream that sends each chunk as a message and waits for slots as `loan` does. It closes this
   * writer when it ends, fails or is aborted. `Writable.fromWeb` with `objectMode` makes a Node
   * stream of it.
   */
  toWeb(): WritableStream<StreamableMessage<D>> {
    this.#checkOpen();
    return writableOf(this);
  }

  /** After the close: checks whether its streams are done. @internal */
  settle(): void {
    this.#ready.settle();
  }

  /** Returns undefined if no slot is free. */
  #reserve(stream: Stream | undefined): LoanedSlot<D> | undefined {
    const ring = this.#ring;
    if (!ring.reserve() || !this.#orderAfterOthers(stream)) return undefined;
    return this.#loans.loan(ring.slot, stream);
  }

  /**
   * Makes the stream wait for all GPU work on the slot. Returns false if the CPU would have to
   * wait.
   */
  #orderAfterOthers(stream: Stream | undefined): boolean {
    if (!this.#loans.usesStreams && !this.#ring.anyGpuReleases) return true;
    let isOrdered = this.#loans.orderAfterFilling(this.#ring.slot, stream);
    this.#ring.pendingReleases((seat, value) => {
      const words = this.#parts.seats[seat]?.page;
      if (stream === undefined || words === undefined) isOrdered = false;
      else enqueueWait(stream, words, page.done, value);
    });
    return isOrdered;
  }

  async #whenFull(options: LoanOptions): Promise<LoanedSlot<D>> {
    const { whenFull, slots } = this;
    if (whenFull === "drop-newest") return this.#loans.loanDropped(slots, options.stream);
    if (whenFull === "error") {
      const found = `all of its ${slots} slots are taken`;
      throw new CudaIpcError("CHANNEL_FULL", `Cannot write to channel "${this.label}": ${found}`);
    }
    const attempt = `write to channel "${this.label}"`;
    const deadline = new Deadline(attempt, options, Number.POSITIVE_INFINITY);
    const streamsAreDone = () =>
      !this.#open || !this.#ring.reserve() || this.#orderAfterOthers(options.stream);
    for (let looks = 1; ; looks += 1) {
      try {
        deadline.check();
        // Readers ring when they release a slot. Streams cannot, so poll for them.
        if (this.#ring.reserve()) await waitUntil(streamsAreDone, deadline, undefined, this.device);
        else await this.#readersMadeRoom(deadline);
      } catch (error) {
        throw hasCode(error, "TIMEOUT") && this.#open
          ? deadline.timedOut(await this.#whyFull())
          : error;
      }
      // Words that change at each look can end each wait within the same turn.
      if (looks % limits.channelLooksMax === 0) await nextTurn();
      this.#checkOpen();
      this.#loss.check();
      const slot = this.#reserve(options.stream);
      if (slot !== undefined) return slot;
    }
  }

  async #whyFull(): Promise<string> {
    if (this.#ring.reserve()) return "streams that use the next slot have not finished with it";
    return await this.#roster.late(this.slots);
  }

  async #readersMadeRoom(deadline: Deadline): Promise<void> {
    const hasRoom = () => !this.#open || this.#ring.reserve();
    this.#ring.fallAsleep();
    try {
      // A reader may have released a slot before it could see that this writer sleeps.
      if (this.#ring.reserve()) await nextTurn();
      // A stream that gives a slot back cannot ring, so poll.
      else if (this.#ring.isHeldByStreams)
        await waitUntil(hasRoom, deadline, undefined, this.device);
      else await this.#room.heard(deadline);
    } finally {
      // SAFETY: after a close the words are unmapped.
      if (this.#open) this.#ring.wakeUp();
    }
  }

  #close(endsAs: "closed" | "gone" | undefined): void {
    if (!this.#open) return;
    const { words } = this.#parts;
    this.#endsAs = endsAs;
    releaseAll([
      () => this.#loans.close(),
      () => {
        this.#open = false;
        this.#dropped = words.dropped;
        if (endsAs !== undefined) words.setState(endsAs);
        this.#ring.wake();
      },
      () => this.#loss.close(),
      () => this.#room.close(),
      () => this.#ready.close(),
    ]);
  }

  /** Its streams have signalled for the last time. */
  #onSettled(): void {
    if (this.#endsAs === undefined) this.#parts.words.setState("awaited");
    releaseAll([() => this.#ring.wake(), () => this.#parts.close(), this.#onClose]);
  }

  #checkOpen(): void {
    if (!this.#open) throw this.#parts.ending.error(`write to channel "${this.label}"`);
  }

  #checkMayLoan(): void {
    this.#checkOpen();
    if (!this.#loans.isLoaned && !this.#isAwaited) return;
    const found = this.#isAwaited
      ? "another one is waited for"
      : "another one is loaned; commit or close it first";
    throw new CudaIpcError("IN_USE", `Cannot loan a slot of channel "${this.label}": ${found}`);
  }
}
