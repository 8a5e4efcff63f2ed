/** The words of a reader's page. The hub writes the lease, and the reader writes all the rest. */
import { CLAIMS, PAGE_BYTES, page, readerModes, readerStates } from "./channel-layout.js";
import { GrowingWords, RingWords } from "./ring-words.js";

export class PageWords {
  readonly #words: RingWords;
  readonly #released: GrowingWords;

  constructor(buffer: ArrayBufferLike, byteOffset = 0) {
    this.#words = new RingWords(buffer, byteOffset, PAGE_BYTES);
    this.#released = new GrowingWords(this.#words, page.released, { count: 1, stride: 0 });
  }

  /** The lease of the reader in this seat; 0 for none. Written by the hub. */
  get lease(): number {
    return this.#words.load(page.lease);
  }

  get state(): number {
    // SYNC: the words of an attached reader are visible after this load. Pairs with `setState`.
    return this.#words.load32(page.state);
  }

  setState(state: keyof typeof readerStates): void {
    // SYNC: after its position. Pairs with the load in `state`.
    this.#words.store32(page.state, readerStates[state]);
  }

  get lossy(): boolean {
    return this.#words.load32(page.mode) === readerModes.lossy;
  }

  setMode(mode: keyof typeof readerModes): void {
    this.#words.store32(page.mode, readerModes[mode]);
  }

  /** Odd while the reader waits for its bell. */
  get asleep(): number {
    // SYNC: after a commit, so at least one side sees the other. Pairs with `setAsleep`.
    return this.#words.load32(page.asleep);
  }

  setAsleep(count: number): void {
    // SYNC: before the reader looks once more. Pairs with the load in `asleep`.
    this.#words.store32(page.asleep, count);
  }

  /** All positions below are given back. */
  get released(): number {
    // SYNC: the reader has finished with the slots below. Pairs with `setReleased`.
    return this.#words.load(page.released);
  }

  setReleased(position: number): void {
    // SYNC: after the last read of the slot, and after `setGpuReleased`. Pairs with the load in
    // `released`.
    this.#released.store(0, position);
  }

  /**
   * Positions below may be given back by streams when `done` reaches them. Load it after
   * `released`.
   */
  get gpuReleased(): number {
    return this.#words.load(page.gpuReleased);
  }

  setGpuReleased(position: number): void {
    this.#words.store(page.gpuReleased, position);
  }

  /** 0 if free; c if position c - 1 is held; -c if it is held until `done` is c. */
  claim(index: number): number {
    return this.#words.load(page.claims + index * 8);
  }

  setClaim(index: number, claim: number): void {
    // SYNC: before the reader loads the limit, and after its last read of the slot. Pairs with the
    // load in `claim`, which comes after the store of the limit.
    this.#words.store(page.claims + index * 8, claim);
  }

  /** The value of the reader's timeline; beyond every position if the reader is gone. */
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

  /**
   * A claim holds the message in this slot. Its position does not matter: a slot can stay claimed
   * while the ring goes round.
   */
  holds(slot: number, slots: number): boolean {
    for (let index = 0; index < CLAIMS; index += 1) {
      const claim = this.claim(index);
      if (claim === 0 || (Math.abs(claim) - 1) % slots !== slot) continue;
      if (claim > 0 || this.done < -claim) return true;
    }
    return false;
  }

  /** Calls back for the claims that stand until `done` reaches them. */
  pendingClaims(each: (value: number) => void): void {
    for (let index = 0; index < CLAIMS; index += 1) {
      const claim = this.claim(index);
      if (claim < 0 && this.done < -claim) each(-claim);
    }
  }
}
