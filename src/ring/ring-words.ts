/**
 * The words of one shared file, of each size that a channel has. What orders the two sides goes by `load` and `store`, which are
 * sequentially consistent; the rest is plain memory, written before such a store and read after such a load.
 */
const HIGH = 2 ** 32;

export class RingWords {
  readonly #words: BigInt64Array;
  readonly #halves: Uint32Array;
  readonly #numbers: Float64Array;
  readonly bytes: Uint8Array;

  constructor(buffer: ArrayBufferLike, byteOffset: number, byteLength: number) {
    this.#words = new BigInt64Array(buffer, byteOffset, byteLength / 8);
    this.#halves = new Uint32Array(buffer, byteOffset, byteLength / 4);
    this.#numbers = new Float64Array(buffer, byteOffset, byteLength / 8);
    this.bytes = new Uint8Array(buffer, byteOffset, byteLength);
  }

  get byteLength(): number {
    return this.bytes.byteLength;
  }

  /** A 64-bit word. What is beyond 2^53 comes out rounded, and so beyond everything that a channel counts to. */
  load(byteOffset: number): number {
    return Number(Atomics.load(this.#words, byteOffset >> 3));
  }

  store(byteOffset: number, value: number): void {
    Atomics.store(this.#words, byteOffset >> 3, BigInt(value));
  }

  load32(byteOffset: number): number {
    return Atomics.load(this.#halves, byteOffset >> 2);
  }

  store32(byteOffset: number, value: number): void {
    Atomics.store(this.#halves, byteOffset >> 2, value);
  }

  /** A 64-bit word of plain memory, from 0. */
  count(byteOffset: number): number {
    const index = byteOffset >> 2;
    return (this.#halves[index] as number) + (this.#halves[index + 1] as number) * HIGH;
  }

  setCount(byteOffset: number, value: number): void {
    const index = byteOffset >> 2;
    // WHY no modulo: a Uint32Array keeps the lowest 32 bits of what it is given.
    this.#halves[index] = value;
    this.#halves[index + 1] = value / HIGH;
  }

  word32(byteOffset: number): number {
    return this.#halves[byteOffset >> 2] as number;
  }

  setWord32(byteOffset: number, value: number): void {
    this.#halves[byteOffset >> 2] = value;
  }

  number(byteOffset: number): number {
    return this.#numbers[byteOffset >> 3] as number;
  }

  setNumber(byteOffset: number, value: number): void {
    this.#numbers[byteOffset >> 3] = value;
  }
}

/**
 * A word that only grows, of the one who alone stores it. WHY not `store` each time: the word would have to be made a bigint, which takes
 * longer than the store, where most of the time its lower half alone changes. WHY the upper half is remembered and not read: others look at
 * the word all the time, and a load would fetch it twice.
 */
export class GrowingWord {
  readonly #words: RingWords;
  readonly #byteOffset: number;
  #high = -1;

  constructor(words: RingWords, byteOffset: number) {
    this.#words = words;
    this.#byteOffset = byteOffset;
  }

  /** Whoever loads the word sees the value before or this one. */
  store(value: number): void {
    const high = Math.floor(value / HIGH);
    if (high === this.#high) this.#words.store32(this.#byteOffset, value);
    else this.#words.store(this.#byteOffset, value);
    this.#high = high;
  }
}
