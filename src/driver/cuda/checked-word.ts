/**
 * The word that a stream last wrote, or last waited for, with what was found when it was checked. A stream uses the same few words again
 * and again, and looking one up among all addresses costs more than the driver's call takes in the FFI.
 * What is known holds until registered memory is taken back; words in memory of the device are looked up each time.
 */
import type { Access } from "../../os/mapping.js";
import type { AddressRange, AddressTable } from "../address-table.js";
import type { DevicePointer } from "../gpu-driver.js";
import { checkWithin, checkWordAddress } from "../operation-checks.js";

export class CheckedWord {
  readonly #access: Access;
  readonly #registered: AddressTable<AddressRange>;
  #pointer: DevicePointer | undefined;
  #address: number | bigint = 0;
  #removals = 0;

  /** @param registered what streams of the device find in registered memory */
  constructor(access: Access, registered: AddressTable<AddressRange>) {
    this.#access = access;
    this.#registered = registered;
  }

  /**
   * The address for the driver, once it was found that the word there may be used.
   * @param elsewhere looks for what is not in registered memory; an address that is in neither is left to the driver
   */
  check(pointer: DevicePointer, elsewhere: (pointer: DevicePointer) => AddressRange | undefined): number | bigint {
    if (pointer === this.#pointer && this.#registered.removals === this.#removals) return this.#address;
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
 * 64 bits as the FFI takes them. WHY a number where it is exact: it goes through in less time than a bigint, which asUintN would make anew.
 */
export function word64(value: number | bigint): number | bigint {
  if (typeof value === "number") return value;
  if (value >= 0n && value <= MAX_EXACT) return Number(value);
  return value >= 0n && value <= INT64_MAX ? value : BigInt.asUintN(64, value);
}
