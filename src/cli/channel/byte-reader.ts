/** Reads lines or a given number of bytes from pieces of any size. */

const LINE_BREAK = 10;
const NOTHING = new Uint8Array(0);

export class ByteReader {
  readonly #pieces: AsyncIterator<Uint8Array>;
  /** Received, and not taken yet. */
  #rest: Uint8Array = NOTHING;

  constructor(pieces: AsyncIterator<Uint8Array>) {
    this.#pieces = pieces;
  }

  /** Takes so many bytes, fewer at the end of the input. Valid until the next call. */
  async take(byteLength: number): Promise<Uint8Array> {
    if (this.#rest.byteLength >= byteLength) return this.#cut(byteLength);
    const parts: Uint8Array[] = [];
    let found = 0;
    // WHY in parts: a header may claim more than there is, so memory is allocated only for what
    // came.
    while (found < byteLength && (this.#rest.byteLength > 0 || (await this.#more()))) {
      const part = this.#cut(Math.min(byteLength - found, this.#rest.byteLength));
      parts.push(part);
      found += part.byteLength;
    }
    return joined(parts);
  }

  /**
   * Takes the next line without its line break. Returns undefined at the end of the input.
   * A last line without a break counts, unless it is empty.
   * A line longer than `byteLengthMax` is cut one byte above it.
   */
  async line(byteLengthMax: number): Promise<Uint8Array | undefined> {
    const parts: Uint8Array[] = [];
    let found = 0;
    for (;;) {
      if (this.#rest.byteLength === 0 && !(await this.#more()))
        return found === 0 ? undefined : joined(parts);
      const end = this.#rest.indexOf(LINE_BREAK);
      const isWhole = end >= 0;
      const room = byteLengthMax + 1 - found;
      const part = this.#cut(Math.min(isWhole ? end : this.#rest.byteLength, room));
      parts.push(part);
      found += part.byteLength;
      if (found > byteLengthMax) return joined(parts);
      if (isWhole) {
        this.#cut(1);
        return joined(parts);
      }
    }
  }

  #cut(byteLength: number): Uint8Array {
    const part = this.#rest.subarray(0, byteLength);
    this.#rest = this.#rest.subarray(byteLength);
    return part;
  }

  /** False at the end. */
  async #more(): Promise<boolean> {
    while (this.#rest.byteLength === 0) {
      const { done, value } = await this.#pieces.next();
      if (done) return false;
      this.#rest = value;
    }
    return true;
  }
}

function joined(parts: readonly Uint8Array[]): Uint8Array {
  const [only = NOTHING] = parts;
  return parts.length <= 1 ? only : Buffer.concat(parts);
}
