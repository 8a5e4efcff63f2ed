/**
 * Remembers the last word that a stream wrote or waited for, with the result of its check. A stream
 * uses the same few words over and over, and looking one up costs more than the call through the
 * FFI. The result holds until some memory is unregistered. Words in device memory are looked up
 * each time.
 */
import type { Access } from "../../os/mapping.js";
import type { AddressRange, AddressTable } from "../common/address-table.js";
import { checkWithin, checkWordAddress } from "../common/argument-checks.js";
import type { DevicePointer } from "../memory-calls.js";

export class CheckedWord {
  readonly #access: Access;
  readonly #registered: AddressTable<AddressRange>;
  #pointer: DevicePointer | undefined;
  #address: number | bigint = 0;
  #removals = 0;

  /** @param registered host memory, by the addresses that streams of the device use */
  constructor(access: Access, registered: AddressTable<AddressRange>) {
    this.#access = access;
    this.#registered = registered;
  }

  /**
   * Checks that the word may be used, and returns its address for the driver.
   * @param elsewhere looks up device memory; an address in neither is left to the driver
   */
  check(
    pointer: DevicePointer,
    elsewhere: (pointer: DevicePointer) => AddressRange | undefined,
  ): number | bigint {
    if (pointer === this.#pointer && this.#registered.removals === this.#removals)
      return this.#address;
    checkWordAddress(pointer);
    const registered = this.#registered.holding(pointer);
    const range = registered ?? elsewhere(pointer);
    if (range !== undefined) checkWithin(range, pointer, 8, this.#access);
    if (registered === undefined) return pointer;
    this.#pointer = pointer;
    this.#address = word64(pointer);
    this.#removals = this.#registered.removals;
    return this.#address;
  }
}

const MAX_EXACT = BigInt(Number.MAX_SAFE_INTEGER);
const INT64_MAX = 2n ** 63n - 1n;

/**
 * Converts 64 bits for the FFI. A safe integer becomes a number, because that is faster than a
 * bigint.
 */
export function word64(value: number | bigint): number | bigint {
  if (typeof value === "number") return value;
  if (value >= 0n && value <= MAX_EXACT) return Number(value);
  return value >= 0n && value <= INT64_MAX ? value : BigInt.asUintN(64, value);
}
