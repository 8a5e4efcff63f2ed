/**
 * Which addresses a driver has handed out, so that an operation can be checked before it touches memory.
 * Ranges do not overlap; a lookup is a binary search.
 */
import type { Access } from "../os/mapping.js";

export interface AddressRange {
  readonly start: bigint;
  readonly byteLength: number;
  readonly access: Access;
}

export class AddressTable<Range extends AddressRange> {
  readonly #what: string;
  readonly #ranges: Range[] = [];
  #removals = 0;

  /** @param what the kind of range in words, for messages: `registered memory` */
  constructor(what: string) {
    this.#what = what;
  }

  get size(): number {
    return this.#ranges.length;
  }

  /** How many ranges were removed so far: while it stays the same, what was found in the table is still there. */
  get removals(): number {
    return this.#removals;
  }

  /** @throws RangeError where the range overlaps one that is in the table */
  add(range: Range): void {
    const index = this.#indexAfter(range.start);
    const before = this.#ranges[index - 1];
    const after = this.#ranges[index];
    if (before !== undefined && bytesInto(before, range.start) < before.byteLength) throw this.#overlap(range, before);
    if (after !== undefined && bytesInto(range, after.start) < range.byteLength) throw this.#overlap(range, after);
    this.#ranges.splice(index, 0, range);
  }

  /** The range that starts at exactly this address. */
  at(start: bigint): Range | undefined {
    const range = this.#ranges[this.#indexAfter(start) - 1];
    return range?.start === start ? range : undefined;
  }

  /** Takes the range that starts at exactly this address out of the table. */
  remove(start: bigint): Range | undefined {
    const index = this.#indexAfter(start) - 1;
    if (this.#ranges[index]?.start !== start) return undefined;
    this.#removals += 1;
    return this.#ranges.splice(index, 1)[0];
  }

  /** The range that holds this address. */
  holding(address: bigint): Range | undefined {
    const range = this.#ranges[this.#indexAfter(address) - 1];
    return range !== undefined && bytesInto(range, address) < range.byteLength ? range : undefined;
  }

  /** How many ranges start at or before the address. */
  #indexAfter(address: bigint): number {
    let low = 0;
    let high = this.#ranges.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#ranges[middle] as Range).start <= address) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  #overlap(range: Range, other: Range): RangeError {
    return new RangeError(`${this.#what}: ${formatRange(range)} overlaps ${formatRange(other)}`);
  }
}

const words = new BigUint64Array(2);
const halves = new Uint32Array(words.buffer);
const HIGH = 2 ** 32;

/**
 * How far an address at or after the start of a range is from it. WHY a number, and found by halves: every operation on a device asks, and
 * the difference as a bigint, made a number, takes twice as long; a distance that is too large to be exact is larger than any range all
 * the same.
 */
export function bytesInto(range: AddressRange, address: bigint): number {
  words[0] = address;
  words[1] = range.start;
  const high = (halves[1] as number) - (halves[3] as number);
  return high * HIGH + ((halves[0] as number) - (halves[2] as number));
}

export function formatAddress(address: bigint): string {
  return `0x${address.toString(16)}`;
}

function formatRange(range: AddressRange): string {
  return `${formatAddress(range.start)} (${range.byteLength} bytes)`;
}
