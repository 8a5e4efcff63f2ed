/**
 * The writer's view of the readers: how far they let it write, which slots they hold, and which of
 * them sleep. A seat can change hands during a look, so contradicting words are read a second time.
 * If they still contradict each other, the reader is expelled.
 */
import { CLAIMS, readerStates } from "./channel-layout.js";
import type { ControlWords } from "./control-words.js";
import type { PageWords } from "./page-words.js";

interface Seat {
  readonly index: number;
  readonly page: PageWords;
  /** The lease that was seen attached last; 0 for none. */
  lease: number;
  released: number;
  gpuReleased: number;
  /** The writer waits for this reader. */
  waitedFor: boolean;
  attached: boolean;
  holds: boolean;
  /** The lease in this seat that was expelled; 0 for none. */
  expelled: number;
  /** The reader's sleep count at the last ring of its bell. */
  rung: number;
}

/** A reader as its page describes it. */
export interface LiveReader {
  readonly seat: number;
  readonly lease: number;
  /** Messages that were committed and that it has not given back. */
  readonly behind: number;
  readonly isWaitedFor: boolean;
}

export interface SeatsOptions {
  /** The writer waits for no reader, whatever the pages say. */
  readonly allLossy: boolean;
  readonly ring: (seat: number) => void;
  /** Called when a reader is found dead that was seen attached. */
  readonly died?: ((seat: number, lease: number) => void) | undefined;
}

export class ReaderSeats {
  readonly #control: ControlWords;
  readonly #seats: readonly Seat[];
  readonly #allLossy: boolean;
  readonly #ring: (seat: number) => void;
  readonly #died: (seat: number, lease: number) => void;
  #anyHolds = false;
  #anyGpuReleases = false;

  constructor(control: ControlWords, pages: readonly PageWords[], options: SeatsOptions) {
    this.#control = control;
    this.#allLossy = options.allLossy;
    this.#ring = options.ring;
    this.#died = options.died ?? (() => {});
    this.#seats = pages.map((page, index) => ({
      index,
      page,
      lease: 0,
      released: 0,
      gpuReleased: 0,
      waitedFor: false,
      attached: false,
      holds: false,
      expelled: control.expelled(index),
      rung: 0,
    }));
  }

  /** The attached readers. This has no effect on the writer's own view of them. */
  live(published: number): LiveReader[] {
    return this.#seats.flatMap(({ index, page }) => {
      const { state, lease } = page;
      if (state !== readerStates.attached || lease === 0 || lease === this.#control.expelled(index))
        return [];
      const behind = Math.max(0, published - page.released);
      const isWaitedFor = !this.#allLossy && !page.lossy;
      return [{ seat: index, lease, behind, isWaitedFor }];
    });
  }

  /** A lossy reader held a slot at the last look. */
  get anyHolds(): boolean {
    return this.#anyHolds;
  }

  /** A reader that is waited for had given slots back by streams at the last look. */
  get anyGpuReleases(): boolean {
    return this.#anyGpuReleases;
  }

  /**
   * Looks at all readers. Returns the position up to which no reader that is waited for needs a
   * slot. A reader that is about to attach may begin further on.
   * @param published as in the control file, of which this is the only writer
   */
  bound(published: number): number {
    const { slots } = this.#control.facts;
    let bound = Number.POSITIVE_INFINITY;
    this.#anyHolds = false;
    this.#anyGpuReleases = false;
    for (const seat of this.#seats) {
      if (!this.#look(seat, published)) continue;
      if (seat.gpuReleased > 0) this.#anyGpuReleases = true;
      if (seat.waitedFor) bound = Math.min(bound, seat.released + slots);
      else if (seat.holds) this.#anyHolds = true;
    }
    return bound;
  }

  /** A lossy reader holds the message in this slot. */
  hold(slot: number): boolean {
    if (!this.#anyHolds) return false;
    const { slots } = this.#control.facts;
    for (const seat of this.#seats) if (mayHold(seat) && seat.page.holds(slot, slots)) return true;
    return false;
  }

  /** Calls back for each slot that a lossy reader's stream still holds. No bell tells its end. */
  pendingHolds(each: (seat: number, value: number) => void): void {
    for (const seat of this.#seats) {
      if (mayHold(seat)) seat.page.pendingClaims((value) => each(seat.index, value));
    }
  }

  /**
   * Calls back for each reader whose streams may still read the slot of this position. If the
   * position was passed over, they read the message that the slot had before.
   */
  pendingReleases(position: number, each: (seat: number, value: number) => void): void {
    for (const { index, page, attached, waitedFor, gpuReleased } of this.#seats) {
      if (!attached || !waitedFor) continue;
      // Not beyond the position: a reader that came since is past it, whatever the last reader in
      // the seat had given back.
      const value = Math.min(gpuReleased, position + 1);
      if (page.done < value) each(index, value);
    }
  }

  /** Rings for all readers that sleep, once for each sleep. */
  wake(): void {
    for (const seat of this.#seats) {
      const { asleep } = seat.page;
      if ((asleep & 1) === 0 || asleep === seat.rung) continue;
      seat.rung = asleep;
      this.#ring(seat.index);
    }
  }

  /** Returns true if a reader is attached. */
  #look(seat: Seat, published: number): boolean {
    if (this.#read(seat, published) || this.#read(seat, published)) return seat.attached;
    // The same reader failed twice.
    seat.attached = false;
    seat.expelled = seat.lease;
    this.#control.setExpelled(seat.index, seat.lease);
    this.#ring(seat.index);
    return false;
  }

  /** The reader that was seen last is not attached any more. */
  #onEnd(seat: Seat, hasLeft: boolean): void {
    const { lease } = seat.page;
    // The hub is about to end the seat.
    if (!hasLeft && lease === seat.lease) return;
    // Another lease: the next reader is about to attach, and nothing tells how the last one ended.
    if (!hasLeft && lease === 0) this.#died(seat.index, seat.lease);
    seat.lease = 0;
  }

  /** Returns false if its words make no sense. */
  #read(seat: Seat, published: number): boolean {
    const { page } = seat;
    const state = page.state;
    seat.attached = false;
    if (state === readerStates.none || state === readerStates.left) {
      if (seat.lease !== 0) this.#onEnd(seat, state === readerStates.left);
      return true;
    }
    const lease = page.lease;
    if (lease === 0 || lease === seat.expelled) return true;
    if (lease !== seat.lease) Object.assign(seat, { lease, released: 0, gpuReleased: 0 });
    const released = page.released;
    // SYNC: after `released`. Pairs with `setGpuReleased`, which comes before `setReleased`.
    const gpuReleased = page.gpuReleased;
    if (
      state !== readerStates.attached ||
      released < seat.released ||
      released > published ||
      gpuReleased > published
    ) {
      return false;
    }
    seat.waitedFor = !this.#allLossy && !page.lossy;
    seat.released = released;
    seat.gpuReleased = gpuReleased;
    seat.holds = false;
    if (!seat.waitedFor) {
      for (let index = 0; index < CLAIMS; index += 1) {
        const claim = page.claim(index);
        if (Math.abs(claim) > published) return false;
        if (claim !== 0) seat.holds = true;
      }
    }
    seat.attached = true;
    return true;
  }
}

/** A lossy reader is attached and held a slot at the last look. */
function mayHold({ attached, waitedFor, holds, page }: Seat): boolean {
  return attached && !waitedFor && holds && page.state === readerStates.attached;
}
