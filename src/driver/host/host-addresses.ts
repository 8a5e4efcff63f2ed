/**
 * The addresses that a host driver has handed out: mapped, staging and registered memory.
 * An operation on any other address is refused, so a mistake is an exception and does not end the
 * process.
 */
import { limits } from "../../base/limits.js";
import { viewMemory } from "../../ffi/koffi.js";
import type { Access, Mapping } from "../../os/mapping.js";
import { type AddressRange, AddressTable, formatAddress } from "../common/address-table.js";
import { checkWithin } from "../common/argument-checks.js";
import type { DevicePointer } from "../memory-calls.js";

interface HostRange extends AddressRange {
  /** Closed with the range; undefined if its owner is elsewhere (pools, reservations). */
  readonly mapping: Mapping | undefined;
  words: BigInt64Array | undefined;
}

export class HostAddresses {
  readonly #mapped = new AddressTable<HostRange>("Mapped memory");
  readonly #staging = new AddressTable<HostRange>("Staging memory");
  readonly #registered = new AddressTable<HostRange>("Registered memory");

  /** Takes over a mapping until `unmap`. */
  addMapping(mapping: Mapping, access: Access): DevicePointer {
    const { address, byteLength } = mapping;
    this.#mapped.add({ start: address, byteLength, access, mapping, words: undefined });
    return address;
  }

  unmap(pointer: DevicePointer): void {
    const mapping = this.#mapped.at(pointer)?.mapping;
    if (mapping === undefined)
      throw new RangeError(`Cannot unmap ${formatAddress(pointer)}: nothing is mapped there`);
    this.#mapped.remove(pointer);
    mapping.close();
  }

  /** Adds memory of another mechanism. Its owner keeps it mapped until `removeRange`. */
  addRange(range: AddressRange): void {
    this.#mapped.add({ ...range, mapping: undefined, words: undefined });
  }

  removeRange(start: DevicePointer): AddressRange | undefined {
    return this.#mapped.remove(start);
  }

  /** Takes over the mapping of staging memory until `removeStaging`. */
  addStaging(mapping: Mapping): void {
    const { address, byteLength } = mapping;
    const access = "read-write";
    this.#staging.add({ start: address, byteLength, access, mapping, words: undefined });
  }

  /** Closes the mapping. Returns false if it was closed already. */
  removeStaging(mapping: Mapping): boolean {
    if (this.#staging.at(mapping.address)?.mapping !== mapping) return false;
    this.#staging.remove(mapping.address);
    mapping.close();
    return true;
  }

  /** SAFETY: the caller keeps the memory mapped, with at least this access, until unregistered. */
  register(start: DevicePointer, byteLength: number, access: Access): void {
    this.#registered.add({ start, byteLength, access, mapping: undefined, words: undefined });
  }

  unregister(start: DevicePointer): void {
    if (this.#registered.remove(start) !== undefined) return;
    throw new RangeError(`Cannot unregister ${formatAddress(start)}: nothing is registered there`);
  }

  /**
   * @throws RangeError outside all memory of this driver, READ_ONLY for a write to read-only memory
   */
  check(address: bigint, byteLength: number, access: Access): void {
    this.#range(address, byteLength, access);
  }

  /** Finds a 64-bit word for Atomics: it is `words[index]`. */
  word(address: bigint, access: Access): { readonly words: BigInt64Array; readonly index: number } {
    const range = this.#range(address, 8, access);
    // Nearly all words are in small ranges, which get one view. A range too large for a view, or
    // one that is not aligned, gets a view of the word alone.
    if (range.byteLength > limits.viewBytesMax || range.start % 8n !== 0n) {
      return { words: new BigInt64Array(viewMemory(address, 8)), index: 0 };
    }
    // SAFETY: the view is looked up with its range each time, so it cannot outlive the range.
    // Nobody outside this driver sees it.
    range.words ??= new BigInt64Array(
      viewMemory(range.start, range.byteLength - (range.byteLength % 8)),
    );
    return { words: range.words, index: Number(address - range.start) / 8 };
  }

  #range(address: bigint, byteLength: number, access: Access): HostRange {
    const range =
      this.#mapped.holding(address) ??
      this.#staging.holding(address) ??
      this.#registered.holding(address);
    if (range === undefined) {
      throw new RangeError(
        `${formatAddress(address)} is not in any mapped, registered or staging memory`,
      );
    }
    checkWithin(range, address, byteLength, access);
    return range;
  }
}
