/**
 * The words of one shared file, of each size that a channel has. `load` and `store` are
 * sequentially consistent and order the two sides. All other words are plain memory: written before
 * such a store and read after such a load.
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

  /** Loads a 64-bit word. A value beyond 2^53 is rounded, and still beyond every valid position. */
  load(byteOffset: number): number {
    return Number(Atomics.load(this.#words, byteOffset >> 3));
  }

  store(byteOffset: number, value: number): void {
    Atomics.store(this.#words, byteOffset >> 3, BigInt(value));
  }

  /**
   * Compares a word that only grows with a value. Loads its lower half in order and its upper half
   * plainly, because a bigint takes longer. A reader that sees the lower half sees its upper half.
   */
  isAt(byteOffset: number, value: number): boolean {
    const index = byteOffset >> 2;
    return (
      Atomics.load(this.#halves, index) === value >>> 0 &&
      this.#halves[index + 1] === upperHalf(value)
    );
  }

  load32(byteOffset: number): number {
    return Atomics.load(this.#halves, byteOffset >> 2);
  }

  store32(byteOffset: number, value: number): void {
    Atomics.store(this.#halves, byteOffset >> 2, value);
  }

  /** An unsigned 64-bit word of plain memory. */
  count(byteOffset: number): number {
    const index = byteOffset >> 2;
    return (this.#halves[index] as number) + (this.#halves[index + 1] as number) * HIGH;
  }

  setCount(byteOffset: number, value: number): void {
    const index = byteOffset >> 2;
    // A Uint32Array keeps the lowest 32 bits, so no modulo is needed.
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
 * Words that only grow and have one writer. Mostly only the lower half changes, and storing it
 * alone is faster than making a bigint.
 * WHY the upper halves are remembered: a load would fetch the cache line from the process that
 * reads it.
 */
export class GrowingWords {
  readonly #words: RingWords;
  readonly #byteOffset: number;
  readonly #stride: number;
  readonly #highs: Int32Array;

  /** @param stride bytes from one word to the next */
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

  /** A concurrent load sees the old value or this one. */
  store(index: number, value: number): void {
    const byteOffset = this.#byteOffset + index * this.#stride;
    const high = upperHalf(value);
    if (high === this.#highs[index]) this.#words.store32(byteOffset, value);
    else this.#words.store(byteOffset, value);
    this.#highs[index] = high;
  }
}

/** For numbers up to 2^53. */
function upperHalf(value: number): number {
  return (value / HIGH) | 0;
}
