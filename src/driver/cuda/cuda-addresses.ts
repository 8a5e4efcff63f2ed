/** The addresses that a CUDA driver has handed out, by which operations are checked. */
import type { Access } from "../../os/mapping.js";
import { type AddressRange, AddressTable } from "../common/address-table.js";
import { checkWithin } from "../common/argument-checks.js";
import type { DevicePointer, MemoryPlace } from "../memory-calls.js";

interface DeviceRange extends AddressRange {
  /** Set by `mapMemory`: the kind of memory. `unmapMemory` refuses all other ranges. */
  readonly mapped?: MemoryPlace;
}

export class CudaAddresses {
  /** Memory of all devices and all mechanisms. */
  readonly memory = new AddressTable<DeviceRange>("Mapped device memory");
  readonly #registered = new Map<number, AddressTable<AddressRange>>();

  /** Registered host memory, by the addresses that streams of this device use. */
  registeredOn(ordinal: number): AddressTable<AddressRange> {
    let table = this.#registered.get(ordinal);
    if (table === undefined) {
      table = new AddressTable("Registered host memory");
      this.#registered.set(ordinal, table);
    }
    return table;
  }

  /**
   * Checks an operation on a device.
   * WHY here and not in the driver: an access that the driver accepts and the GPU then refuses ends
   * the whole context. Addresses that were not handed out here are left to the driver.
   */
  check(ordinal: number, address: DevicePointer, byteLength: number, access: Access): void {
    const range = this.memory.holding(address) ?? this.#registered.get(ordinal)?.holding(address);
    if (range !== undefined) checkWithin(range, address, byteLength, access);
  }
}
