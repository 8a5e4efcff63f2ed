/**
 * The writer's side of a ring: which position comes next, whether its slot is free, and its commit. Never waits. What it reads of the
 * readers' pages is checked: words that make no sense expel the reader that wrote them and nobody else.
 */
import { CudaIpcError } from "../base/errors.js";
import { POSITIONS_MAX, windowOf } from "./channel-layout.js";
import type { ControlWords, MessageHeader } from "./control-words.js";
import type { PageWords } from "./page-words.js";
import { type LiveReader, ReaderPlaces } from "./reader-places.js";

export class RingWriter {
  readonly #control: ControlWords;
  readonly #places: ReaderPlaces;
  readonly #slots: number;
  readonly #window: number;
  #position: number;
  #slot: number;
  #sequence: number;
  #limit: number;
  /** As `limit`, or less where a reader that came between is not that far. */
  #mayWrite: number;
  /** Whether the next position was found to be held by nobody. */
  #isReserved = false;

  /**
   * Goes on where the words say that the last writer was.
   * @param ring wakes the reader at this place
   */
  constructor(control: ControlWords, pages: readonly PageWords[], ring: (place: number) => void) {
    const { slots, whenFull } = control.facts;
    this.#control = control;
    this.#slots = slots;
    this.#window = windowOf(slots);
    this.#places = new ReaderPlaces(control, pages, { allMayBeOvertaken: whenFull === "drop-oldest", ring });
    this.#position = control.published;
    this.#slot = this.#position % slots;
    this.#sequence = control.sequence;
    this.#limit = control.limit;
    control.setAsleep((control.asleep + 1) & ~1);
    // WHY not the limit: what readers an earlier writer looked at, and who came since, is not known.
    this.#mayWrite = this.#position;
  }

  /** The next to be committed. */
  get position(): number {
    return this.#position;
  }

  /** Where the next message lies. */
  get slot(): number {
    return this.#slot;
  }

  /** Of the next message. */
  get sequence(): number {
    return this.#sequence;
  }

  /** The readers that are there now. */
  liveReaders(): LiveReader[] {
    return this.#places.live(this.#position);
  }

  /**
   * Whether `slot` is free for the next message, as far as the CPU can tell: see `pendingReleases`. Asking again changes nothing.
   * @throws LIMIT_EXCEEDED at the end of the numbers
   */
  reserve(): boolean {
    // WHY remembered: a reader that comes too late claims a slot for a moment, until it sees that it was overtaken.
    if (this.#position < this.#mayWrite && (this.#isReserved || !this.#places.anyHolds)) return true;
    const before = this.#position;
    this.#isReserved = this.#findFree();
    // WHY: readers that are waited for may sleep before what was passed over, and so hold up the writer.
    if (!this.#isReserved && this.#position !== before) this.#places.wake();
    return this.#isReserved;
  }

  #findFree(): boolean {
    for (let passedOver = 0; passedOver <= this.#slots; passedOver += 1) {
      if (this.#position >= this.#mayWrite && !this.#extend()) return false;
      if (!this.#places.hold(this.#slot)) return true;
      // WHY looked for first: each slot that is passed over is a message that others may lose.
      if (passedOver === 0 && !this.#isAnyFree()) return false;
      if (!this.#places.hold(this.#slot)) return true;
      this.#goPast();
    }
    return false;
  }

  /** Whether a reader that is waited for gives slots back by streams: see `pendingReleases`. */
  get anyGpuReleases(): boolean {
    return this.#places.anyGpuReleases;
  }

  /** Positions for which the slot's last readers may still be at work on a GPU: calls back with a place, and what its timeline must reach. */
  pendingReleases(each: (place: number, value: number) => void): void {
    this.#places.pendingReleases(this.#position - this.#slots, each);
  }

  /**
   * Where nothing could be reserved: what streams of readers that may be overtaken still hold. Calls back with a place, and what its
   * timeline must reach. Nobody rings the bell when it has.
   */
  pendingHolds(each: (place: number, value: number) => void): void {
    this.#places.pendingHolds(each);
  }

  /** The message in `slot` is complete. The caller has reserved the slot, and written shape and meta before. */
  commit(message: Omit<MessageHeader, "sequence">): number {
    const sequence = this.#sequence;
    // WHY in this order: whoever follows a writer that died among these lines tells from them where it was.
    this.#control.setHeader(this.#slot, sequence, message);
    this.#control.commit(this.#slot, this.#position);
    this.#sequence = sequence + 1;
    this.#control.setSequence(this.#sequence);
    this.#advance();
    this.#control.publish(this.#position);
    this.#places.wake();
    return sequence;
  }

  /** There is no message at this position, whose slot may have been written to. */
  passOver(): void {
    this.#goPast();
    // WHY: a reader that is waited for goes past this position only when it wakes.
    this.#places.wake();
  }

  /** As `RingReader.fallAsleep`, for room. */
  fallAsleep(): void {
    this.#control.setAsleep(this.#control.asleep | 1);
  }

  wakeUp(): void {
    const { asleep } = this.#control;
    if ((asleep & 1) === 1) this.#control.setAsleep(asleep + 1);
  }

  /** One message more was not written, since there was no room. */
  drop(): void {
    this.#control.setDropped(this.#control.dropped + 1);
  }

  /** Wakes all readers that sleep: the state of the channel has changed. */
  wake(): void {
    this.#places.wake();
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

  /** Looks at the readers; whether the next position may be written. */
  #extend(): boolean {
    if (this.#position > POSITIONS_MAX) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot write to a channel: ${POSITIONS_MAX} positions are written, the most there are`,
      );
    }
    const target = Math.min(this.#position + this.#window, this.#places.bound(this.#position));
    if (target <= this.#position) return false;
    if (target > this.#limit) {
      this.#limit = target;
      this.#control.setLimit(target);
    }
    // WHY a second look: a reader that came between has seen the old limit, and counts on it.
    this.#mayWrite = Math.min(target, this.#places.bound(this.#position));
    return this.#mayWrite > this.#position;
  }

  #isAnyFree(): boolean {
    this.#places.bound(this.#position);
    for (let slot = 0; slot < this.#slots; slot += 1) if (!this.#places.hold(slot)) return true;
    return false;
  }
}
