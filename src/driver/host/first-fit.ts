/**
 * First-fit allocation: an allocation goes into the first gap that is long enough. Pure
 * bookkeeping; it touches no memory. Gaps are kept in order, and neighbouring gaps are joined.
 */
import { checkInteger, roundUp } from "../../base/bytes.js";

interface Gap {
  readonly offset: number;
  readonly byteLength: number;
}

export class FirstFit {
  readonly capacity: number;
  readonly alignment: number;
  readonly #gaps: Gap[];
  readonly #allocated = new Map<number, number>();
  #usedBytes = 0;

  /** @param capacity a multiple of the alignment */
  constructor(capacity: number, alignment: number) {
    if (capacity % alignment !== 0)
      throw new RangeError(`${capacity} is not a multiple of ${alignment}`);
    this.capacity = capacity;
    this.alignment = alignment;
    this.#gaps = capacity > 0 ? [{ offset: 0, byteLength: capacity }] : [];
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  get count(): number {
    return this.#allocated.size;
  }

  /** The end of the last allocation. Nothing behind it is used. */
  get usedEnd(): number {
    const last = this.#gaps[this.#gaps.length - 1];
    return last !== undefined && last.offset + last.byteLength === this.capacity
      ? last.offset
      : this.capacity;
  }

  /**
   * Allocates `byteLength` bytes, rounded up to the alignment. Returns the offset, or undefined if
   * no gap is long enough.
   */
  allocate(byteLength: number): number | undefined {
    const wanted = roundUp(checkInteger("Allocation: byteLength", byteLength, 1), this.alignment);
    const index = this.#gaps.findIndex((gap) => gap.byteLength >= wanted);
    const gap = this.#gaps[index];
    if (gap === undefined) return undefined;
    const { offset } = gap;
    const rest = gap.byteLength - wanted;
    if (rest === 0) this.#gaps.splice(index, 1);
    else this.#gaps[index] = { offset: offset + wanted, byteLength: rest };
    this.#allocated.set(offset, wanted);
    this.#usedBytes += wanted;
    return offset;
  }

  /** @throws RangeError if no allocation starts at the offset */
  free(offset: number): void {
    const byteLength = this.#allocated.get(offset);
    if (byteLength === undefined)
      throw new RangeError(`Cannot free offset ${offset}: no allocation starts there`);
    this.#allocated.delete(offset);
    this.#usedBytes -= byteLength;
    const index = this.#indexAfter(offset);
    const before = this.#gaps[index - 1];
    const after = this.#gaps[index];
    const joinsBefore = before !== undefined && before.offset + before.byteLength === offset;
    const joinsAfter = after !== undefined && offset + byteLength === after.offset;
    const start = joinsBefore ? before.offset : offset;
    const end = joinsAfter ? after.offset + after.byteLength : offset + byteLength;
    const replaced = (joinsBefore ? 1 : 0) + (joinsAfter ? 1 : 0);
    this.#gaps.splice(joinsBefore ? index - 1 : index, replaced, {
      offset: start,
      byteLength: end - start,
    });
  }

  /** Counts the gaps that start before the offset. */
  #indexAfter(offset: number): number {
    let low = 0;
    let high = this.#gaps.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#gaps[middle] as Gap).offset < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}
