/** A reader's page: its words, of which it alone writes all but the lease, and what the writer makes of them. */
import { CLAIMS, PAGE_BYTES, page, readerModes, readerStates } from "./channel-layout.js";
import { GrowingWords, RingWords } from "./ring-words.js";

export class PageWords {
  readonly #words: RingWords;
  readonly #released: GrowingWords;

  constructor(buffer: ArrayBufferLike, byteOffset = 0) {
    this.#words = new RingWords(buffer, byteOffset, PAGE_BYTES);
    this.#released = new GrowingWords(this.#words, page.released, { count: 1, stride: 0 });
  }

  /** Of the reader that has this place; 0 for none. Written by the hub. */
  get lease(): number {
    return this.#words.load(page.lease);
  }

  get state(): number {
    // SYNC: the words of a reader that is attached are seen after this. Pairs with `setState`.
    return this.#words.load32(page.state);
  }

  setState(state: keyof typeof readerStates): void {
    // SYNC: its position first. Pairs with the load in `state`.
    this.#words.store32(page.state, readerStates[state]);
  }

  get mayBeOvertaken(): boolean {
    return this.#words.load32(page.mode) === readerModes.mayBeOvertaken;
  }

  setMode(mode: keyof typeof readerModes): void {
    this.#words.store32(page.mode, readerModes[mode]);
  }

  /** Odd while the reader waits for its bell. */
  get asleep(): number {
    // SYNC: after a commit: either the reader sees the message, or the writer sees that it sleeps. Pairs with `setAsleep`.
    return this.#words.load32(page.asleep);
  }

  setAsleep(count: number): void {
    // SYNC: before the reader looks once more. Pairs with the load in `asleep`.
    this.#words.store32(page.asleep, count);
  }

  /** Positions below are given back. */
  get released(): number {
    // SYNC: the reader has done with the slots below. Pairs with `setReleased`.
    return this.#words.load(page.released);
  }

  setReleased(position: number): void {
    // SYNC: after the last read of the slot, and after `setGpuReleased`. Pairs with the load in `released`.
    this.#released.store(0, position);
  }

  /** Positions below may be given back by streams, once `done` is there. Asked after `released`. */
  get gpuReleased(): number {
    return this.#words.load(page.gpuReleased);
  }

  setGpuReleased(position: number): void {
    this.#words.store(page.gpuReleased, position);
  }

  /** 0: free; c: position c - 1 is held; -c: the same until `done` is c. */
  claim(index: number): number {
    return this.#words.load(page.claims + index * 8);
  }

  setClaim(index: number, claim: number): void {
    // SYNC: before the reader looks at the limit, and after its last read of the slot. Pairs with the load in `claim`, which comes after
    // the store of the limit.
    this.#words.store(page.claims + index * 8, claim);
  }

  /** The value of the timeline of what streams have given back; beyond every position where the reader is gone. */
  get done(): number {
    return this.#words.load(page.done);
  }

  setDone(position: number): void {
    this.#words.store(page.done, position);
  }

  setCounts(received: number, missed: number): void {
    this.#words.setCount(page.received, received);
    this.#words.setCount(page.missed, missed);
  }

  get received(): number {
    return this.#words.count(page.received);
  }

  get missed(): number {
    return this.#words.count(page.missed);
  }

  /** Whether a claim stands for a message in this slot: of whatever position, since one can be held while the ring goes round. */
  holds(slot: number, slots: number): boolean {
    for (let index = 0; index < CLAIMS; index += 1) {
      const claim = this.claim(index);
      if (claim === 0 || (Math.abs(claim) - 1) % slots !== slot) continue;
      if (claim > 0 || this.done < -claim) return true;
    }
    return false;
  }

  /** The claims that stand until `done` is there. */
  pendingClaims(each: (value: number) => void): void {
    for (let index = 0; index < CLAIMS; index += 1) {
      const claim = this.claim(index);
      if (claim < 0 && this.done < -claim) each(-claim);
    }
  }
}
