/** Which bytes of an object are still to be copied. Pure. */

export interface ByteRange {
  readonly byteOffset: number;
  readonly byteLength: number;
}

export class ByteRanges {
  readonly totalBytes: number;
  readonly #left: ByteRange[];
  #doneBytes = 0;

  constructor(totalBytes: number) {
    this.totalBytes = totalBytes;
    this.#left = totalBytes === 0 ? [] : [{ byteOffset: 0, byteLength: totalBytes }];
  }

  get doneBytes(): number {
    return this.#doneBytes;
  }

  /** Takes the next bytes, at most `byteLengthMax`. Undefined if none are left. */
  take(byteLengthMax: number): ByteRange | undefined {
    const range = this.#left.shift();
    if (range === undefined) return undefined;
    const byteLength = Math.min(byteLengthMax, range.byteLength);
    const rest = range.byteLength - byteLength;
    if (rest > 0)
      this.#left.unshift({ byteOffset: range.byteOffset + byteLength, byteLength: rest });
    return { byteOffset: range.byteOffset, byteLength };
  }

  done(range: ByteRange): void {
    this.#doneBytes += range.byteLength;
  }

  /** The bytes were not copied. They are taken again. */
  giveBack(range: ByteRange): void {
    this.#left.unshift(range);
  }
}

const PIECE_BYTES_MIN = 64 * 1024;
const PIECE_BYTES_FIRST = 256 * 1024;
const FAST_MS = 200;
const SLOW_MS = 1000;

/** Chooses the size of pieces: large for speed, small enough that a slow network shows progress. */
export class PieceSize {
  readonly #bytesMax: number;
  #bytes = PIECE_BYTES_FIRST;

  constructor(bytesMax: number) {
    this.#bytesMax = bytesMax;
  }

  get bytes(): number {
    return this.#bytes;
  }

  /** Tells how long a piece took. */
  took(ms: number): void {
    if (ms < FAST_MS) this.#bytes = Math.min(this.#bytesMax, this.#bytes * 2);
    if (ms > SLOW_MS) this.#bytes = Math.max(PIECE_BYTES_MIN, this.#bytes / 2);
  }
}
