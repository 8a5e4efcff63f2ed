/**
 * The address ranges that a driver has handed out. Operations are checked against them before they
 * touch memory. Ranges do not overlap; a lookup is a binary search.
 */
import type { Access } from "../../os/mapping.js";

export interface AddressRange {
  readonly start: bigint;
  readonly byteLength: number;
  readonly access: Access;
}

export class AddressTable<Range extends AddressRange> {
  readonly #what: string;
  readonly #ranges: Range[] = [];
  #removals = 0;

  /** @param what the kind of range, for messages: `registered memory` */
  constructor(what: string) {
    this.#what = what;
  }

  get size(): number {
    return this.#ranges.length;
  }

  /**
   * How many ranges were removed. While it stays the same, a range found earlier is still valid.
   */
  get removals(): number {
    return this.#removals;
  }

  /** @throws RangeError if it overlaps a range of the table */
  add(range: Range): void {
    const index = this.#indexAfter(range.start);
    const before = this.#ranges[index - 1];
    const after = this.#ranges[index];
    if (before !== undefined && bytesInto(before, range.start) < before.byteLength)
      throw this.#overlap(range, before);
    if (after !== undefined && bytesInto(range, after.start) < range.byteLength)
      throw this.#overlap(range, after);
    this.#ranges.splice(index, 0, range);
  }

  /** Finds the range that starts at exactly this address. */
  at(start: bigint): Range | undefined {
    const range = this.#ranges[this.#indexAfter(start) - 1];
    return range?.start === start ? range : undefined;
  }

  /** Removes the range that starts at exactly this address. */
  remove(start: bigint): Range | undefined {
    const index = this.#indexAfter(start) - 1;
    if (this.#ranges[index]?.start !== start) return undefined;
    this.#removals += 1;
    return this.#ranges.splice(index, 1)[0];
  }

  /** Finds the range that contains this address. */
  holding(address: bigint): Range | undefined {
    const range = this.#ranges[this.#indexAfter(address) - 1];
    return range !== undefined && bytesInto(range, address) < range.byteLength ? range : undefined;
  }

  /** Counts the ranges that start at or before the address. */
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
 * The distance from the start of a range to an address at or after it.
 * WHY by halves: every operation asks, and subtracting bigints takes twice as long. A distance too
 * large to be exact is still larger than any range.
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
