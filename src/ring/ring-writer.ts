/**
 * The writer's side of a ring: reserves the next slot and commits its message. Never waits. It
 * checks what it reads from the readers' pages, and wrong words expel only the reader that wrote
 * them.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { CLAIMS, flags, POSITIONS_MAX, windowOf } from "./channel-layout.js";
import type { ControlWords, MessageHeader } from "./control-words.js";
import type { PageWords } from "./page-words.js";
import { type LiveReader, ReaderSeats } from "./reader-seats.js";

export class RingWriter {
  readonly #control: ControlWords;
  readonly #seats: ReaderSeats;
  readonly #slots: number;
  readonly #window: number;
  /** Slots that may be held at a time, and some more: readers may claim others meanwhile. */
  readonly #passesMax: number;
  #position: number;
  #slot: number;
  #sequence: number;
  #limit: number;
  /** The limit, or less if a reader that came meanwhile needs the slots beyond. */
  #mayWrite: number;
  /** The next position was found free. */
  #isReserved = false;

  /**
   * Continues where the words say that the last writer was.
   * @param ring wakes the reader in this seat
   * @param died called when a look at the readers finds that one died
   */
  constructor(
    control: ControlWords,
    pages: readonly PageWords[],
    ring: (seat: number) => void,
    died?: (seat: number, lease: number) => void,
  ) {
    const { slots, readersMax, whenFull } = control.facts;
    this.#control = control;
    this.#slots = slots;
    this.#window = windowOf(slots);
    this.#passesMax = Math.min(slots, CLAIMS * readersMax + limits.channelLooksMax);
    this.#seats = new ReaderSeats(control, pages, {
      allLossy: whenFull === "drop-oldest",
      ring,
      died,
    });
    this.#position = control.published;
    this.#slot = this.#position % slots;
    this.#sequence = control.sequence;
    this.#limit = control.limit;
    control.setAsleep((control.asleep + 1) & ~1);
    // WHY not the limit: readers may have come since the last writer looked at them.
    this.#mayWrite = this.#position;
  }

  /** The position of the next message. */
  get position(): number {
    return this.#position;
  }

  /** The slot of the next message. */
  get slot(): number {
    return this.#slot;
  }

  /** The sequence number of the next message. */
  get sequence(): number {
    return this.#sequence;
  }

  /** The attached readers. */
  liveReaders(): LiveReader[] {
    return this.#seats.live(this.#position);
  }

  /**
   * Returns true if `slot` is free for the next message. Streams may still use it: see
   * `pendingReleases`. You may call it again before the commit.
   * @throws LIMIT_EXCEEDED at the last position
   */
  reserve(): boolean {
    // WHY remembered: a reader that is too late claims the slot for a moment, until it sees the
    // limit.
    if (this.#position < this.#mayWrite && (this.#isReserved || !this.#seats.anyHolds)) return true;
    const before = this.#position;
    this.#isReserved = this.#findFree();
    // Readers that are waited for may sleep before the positions that were passed over.
    if (!this.#isReserved && this.#position !== before) this.#seats.wake();
    return this.#isReserved;
  }

  #findFree(): boolean {
    for (let passedOver = 0; passedOver <= this.#passesMax; passedOver += 1) {
      if (this.#position >= this.#mayWrite && !this.#extend()) return false;
      if (!this.#seats.hold(this.#slot)) return true;
      // Each slot that is passed over is a message that other readers may lose, so check first.
      if (passedOver === 0 && !this.#isAnyFree()) return false;
      if (!this.#seats.hold(this.#slot)) return true;
      this.#goPast();
    }
    return false;
  }

  /** A reader that is waited for gives slots back by streams: see `pendingReleases`. */
  get anyGpuReleases(): boolean {
    return this.#seats.anyGpuReleases;
  }

  /**
   * Calls back for each seat whose streams may still read the slot, with the value that its
   * timeline must reach.
   */
  pendingReleases(each: (seat: number, value: number) => void): void {
    this.#seats.pendingReleases(this.#position - this.#slots, each);
  }

  /**
   * After a failed `reserve`: calls back for each seat of a lossy reader whose streams hold a slot,
   * with the value that its timeline must reach. Nobody rings when it does.
   */
  pendingHolds(each: (seat: number, value: number) => void): void {
    this.#seats.pendingHolds(each);
  }

  /** After a failed `reserve`: streams of lossy readers hold a slot. */
  get isHeldByStreams(): boolean {
    let isHeld = false;
    this.pendingHolds(() => {
      isHeld = true;
    });
    return isHeld;
  }

  /** Commits the message in `slot`. Reserve the slot and write shape and meta before. */
  commit(message: Omit<MessageHeader, "sequence">): number {
    const sequence = this.#sequence;
    // WHY in this order: the next writer tells from these words where this one died.
    this.#control.setHeader(this.#slot, sequence, message);
    this.#control.commit(this.#slot, this.#position);
    this.#sequence = sequence + 1;
    this.#control.setSequence(this.#sequence);
    this.#advance();
    this.#control.publish(this.#position);
    this.#seats.wake();
    return sequence;
  }

  /** Skips this position without a message. Its slot may have been written to. */
  passOver(): void {
    this.#goPast();
    // A reader that is waited for goes past this position only when it wakes.
    this.#seats.wake();
  }

  /** Gives the next message this number. Readers count those in between as missed. */
  goTo(sequence: number): void {
    if (sequence === this.#sequence) return;
    this.#sequence = sequence;
    this.#control.setSequence(sequence);
  }

  /**
   * Gives the first message of a new ring this number, by a message before it that is lost.
   * Nobody may read the ring yet, because this writes over slots without waiting for readers.
   */
  beginAt(sequence: number): void {
    if (sequence === this.#sequence) return;
    // A reader takes 0 for the number at the first position, so let none begin there.
    for (let count = 0; count <= this.#slots; count += 1) {
      this.reserve();
      this.passOver();
    }
    this.reserve();
    this.#sequence = sequence - 1;
    const { epoch } = this.#control;
    const lost = { flags: flags.lost, byteLength: 0, metaBytes: 0, readyAt: 0 };
    this.commit({ ...lost, epoch, timestampMs: 0 });
  }

  /** As `RingReader.fallAsleep`, but for a free slot. */
  fallAsleep(): void {
    this.#control.setAsleep(this.#control.asleep | 1);
  }

  wakeUp(): void {
    const { asleep } = this.#control;
    if ((asleep & 1) === 1) this.#control.setAsleep(asleep + 1);
  }

  /** Counts a message that was not written because no slot was free. */
  drop(): void {
    this.#control.setDropped(this.#control.dropped + 1);
  }

  /** Wakes all readers that sleep, because the state of the channel has changed. */
  wake(): void {
    this.#seats.wake();
  }

  #goPast(): void {
    this.#control.passOver(this.#slot, this.#position);
    this.#advance();
    this.#control.publish(this.#position);
  }

  #advance(): void {
    this.#isReserved = false;
    this.#position += 1;
    this.#slot = this.#slot + 1 === this.#slots ? 0 : this.#slot + 1;
  }

  /** Looks at the readers and moves the limit. Returns true if the next position may be written. */
  #extend(): boolean {
    if (this.#position > POSITIONS_MAX) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot write to a channel: ${POSITIONS_MAX} positions are written, the most there are`,
      );
    }
    const target = Math.min(this.#position + this.#window, this.#seats.bound(this.#position));
    if (target <= this.#position) return false;
    if (target > this.#limit) {
      this.#limit = target;
      this.#control.setLimit(target);
    }
    // WHY a second look: a reader that came meanwhile has seen the old limit and relies on it.
    this.#mayWrite = Math.min(target, this.#seats.bound(this.#position));
    return this.#mayWrite > this.#position;
  }

  #isAnyFree(): boolean {
    this.#seats.bound(this.#position);
    for (let slot = 0; slot < this.#slots; slot += 1) if (!this.#seats.hold(slot)) return true;
    return false;
  }
}
