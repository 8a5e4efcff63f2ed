/**
 * The readers of a channel as its writer sees them: how far they let it go, what they hold, who sleeps. Words that contradict
 * themselves are looked at twice, since a place can change hands meanwhile, and then expel their reader.
 */
import { CLAIMS, readerStates } from "./channel-layout.js";
import type { ControlWords } from "./control-words.js";
import type { PageWords } from "./page-words.js";

interface Place {
  readonly index: number;
  readonly page: PageWords;
  /** The lease that was seen attached last; 0 for none. */
  lease: number;
  released: number;
  gpuReleased: number;
  /** Whether the writer waits for it. */
  waitedFor: boolean;
  attached: boolean;
  holds: boolean;
  /** The lease here that was turned away; 0 for none. */
  expelled: number;
  /** The count of its sleeps for which its bell was rung. */
  rung: number;
}

/** A reader as its page says it is. */
export interface LiveReader {
  readonly place: number;
  readonly lease: number;
  /** Messages that were committed and that it has not given back. */
  readonly behind: number;
  readonly isWaitedFor: boolean;
}

export interface PlacesOptions {
  /** None of them is waited for, whatever it says. */
  readonly allMayBeOvertaken: boolean;
  readonly ring: (place: number) => void;
}

export class ReaderPlaces {
  readonly #control: ControlWords;
  readonly #places: readonly Place[];
  readonly #allMayBeOvertaken: boolean;
  readonly #ring: (place: number) => void;
  #anyHolds = false;
  #anyGpuReleases = false;

  constructor(control: ControlWords, pages: readonly PageWords[], options: PlacesOptions) {
    this.#control = control;
    this.#allMayBeOvertaken = options.allMayBeOvertaken;
    this.#ring = options.ring;
    this.#places = pages.map((page, index) => ({
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

  /** The readers that are there now. Asking changes nothing of what the writer goes by. */
  live(published: number): LiveReader[] {
    return this.#places.flatMap(({ index, page }) => {
      const { state, lease } = page;
      if (state !== readerStates.attached || lease === 0 || lease === this.#control.expelled(index)) return [];
      const behind = Math.max(0, published - page.released);
      return [{ place: index, lease, behind, isWaitedFor: !this.#allMayBeOvertaken && !page.mayBeOvertaken }];
    });
  }

  /** Whether a reader that may be overtaken held anything at the last look. */
  get anyHolds(): boolean {
    return this.#anyHolds;
  }

  /** Whether a reader that is waited for had given anything back by streams at the last look. */
  get anyGpuReleases(): boolean {
    return this.#anyGpuReleases;
  }

  /**
   * Looks at all readers: up to which position nobody who is waited for needs a slot. A reader that is about to attach may be less far
   * than it will be in a moment.
   * @param published what the control file says, of which this is the only writer
   */
  bound(published: number): number {
    const { slots } = this.#control.facts;
    let bound = Number.POSITIVE_INFINITY;
    this.#anyHolds = false;
    this.#anyGpuReleases = false;
    for (const place of this.#places) {
      if (!this.#look(place, published)) continue;
      if (place.gpuReleased > 0) this.#anyGpuReleases = true;
      if (place.waitedFor) bound = Math.min(bound, place.released + slots);
      else if (place.holds) this.#anyHolds = true;
    }
    return bound;
  }

  /** Whether a reader that may be overtaken holds what is in this slot. */
  hold(slot: number): boolean {
    if (!this.#anyHolds) return false;
    const { slots } = this.#control.facts;
    for (const place of this.#places) if (mayHold(place) && place.page.holds(slot, slots)) return true;
    return false;
  }

  /** What streams of readers that may be overtaken still hold: nobody rings when they have done with it. */
  pendingHolds(each: (place: number, value: number) => void): void {
    for (const place of this.#places) {
      if (mayHold(place)) place.page.pendingClaims((value) => each(place.index, value));
    }
  }

  /** Whose streams may still read the slot of this position, or what lay there before if that was passed over. */
  pendingReleases(position: number, each: (place: number, value: number) => void): void {
    for (const { index, page, attached, waitedFor, gpuReleased } of this.#places) {
      if (!attached || !waitedFor) continue;
      // WHY not further than the position: a reader that came since is past it, whatever the one before had given back.
      const value = Math.min(gpuReleased, position + 1);
      if (page.done < value) each(index, value);
    }
  }

  /** Rings for all that sleep, once for each sleep. */
  wake(): void {
    for (const place of this.#places) {
      const { asleep } = place.page;
      if ((asleep & 1) === 0 || asleep === place.rung) continue;
      place.rung = asleep;
      this.#ring(place.index);
    }
  }

  /** Whether a reader is there. */
  #look(place: Place, published: number): boolean {
    if (this.#read(place, published) || this.#read(place, published)) return place.attached;
    // The same reader twice.
    place.attached = false;
    place.expelled = place.lease;
    this.#control.setExpelled(place.index, place.lease);
    this.#ring(place.index);
    return false;
  }

  /** False where its words make no sense. */
  #read(place: Place, published: number): boolean {
    const { page } = place;
    const state = page.state;
    place.attached = false;
    if (state === readerStates.none || state === readerStates.left) return true;
    const lease = page.lease;
    if (lease === 0 || lease === place.expelled) return true;
    if (lease !== place.lease) Object.assign(place, { lease, released: 0, gpuReleased: 0 });
    const released = page.released;
    // SYNC: after `released`; see there.
    const gpuReleased = page.gpuReleased;
    if (
      state !== readerStates.attached ||
      released < place.released ||
      released > published ||
      gpuReleased > published
    ) {
      return false;
    }
    place.waitedFor = !this.#allMayBeOvertaken && !page.mayBeOvertaken;
    place.released = released;
    place.gpuReleased = gpuReleased;
    place.holds = false;
    if (!place.waitedFor) {
      for (let index = 0; index < CLAIMS; index += 1) {
        const claim = page.claim(index);
        if (Math.abs(claim) > published) return false;
        if (claim !== 0) place.holds = true;
      }
    }
    place.attached = true;
    return true;
  }
}

/** Whether a reader that may be overtaken is there, and held something at the last look. */
function mayHold({ attached, waitedFor, holds, page }: Place): boolean {
  return attached && !waitedFor && holds && page.state === readerStates.attached;
}
