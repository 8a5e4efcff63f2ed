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

  /**
   * Whether a word that only grows has this value. WHY half of it in order, and half behind: a bigint takes longer, and whoever sees the
   * lower half sees the upper half that belongs to it.
   */
  isAt(byteOffset: number, value: number): boolean {
    const index = byteOffset >> 2;
    return Atomics.load(this.#halves, index) === value >>> 0 && this.#halves[index + 1] === upperHalf(value);
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
 * Words that only grow, of the one who alone stores them. WHY not `store` each time: the word would have to be made a bigint, which takes
 * longer than the store, where most of the time its lower half alone changes. WHY the upper halves are remembered and not read: others look
 * at the words all the time, and a load would fetch them twice.
 */
export class GrowingWords {
  readonly #words: RingWords;
  readonly #byteOffset: number;
  readonly #stride: number;
  readonly #highs: Int32Array;

  /** @param stride from one of the words to the next */
  constructor(
    words: RingWords,
    byteOffset: number,
    { count, stride }: { readonly count: number; readonly stride: number },
  ) {
    this.#words = words;
    this.#byteOffset = byteOffset;
    this.#stride = stride;
    this.#highs = new Int32Array(count).fill(-1);
  }

  /** Whoever loads the word sees the value before or this one. */
  store(index: number, value: number): void {
    const byteOffset = this.#byteOffset + index * this.#stride;
    const high = upperHalf(value);
    if (high === this.#highs[index]) this.#words.store32(byteOffset, value);
    else this.#words.store(byteOffset, value);
    this.#highs[index] = high;
  }
}

/** Of a number up to 2^53. */
function upperHalf(value: number): number {
  return (value / HIGH) | 0;
}
