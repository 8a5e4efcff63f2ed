/**
 * The memory calls of the seam: device memory and its mappings, memory that grows in place, staging
 * memory, and host memory that streams may use.
 */
import type { Access, MapAccess } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";

/**
 * An address in a device's address space of this process. On the host it is an ordinary address.
 */
export type DevicePointer = bigint;

/** An address in this process's own memory. */
export type HostPointer = bigint;

/**
 * The kind of memory: `device` is the device's own, `host-numa` is memory of the machine on the
 * device's NUMA node. Device and CPU use `host-numa` memory at the same address.
 */
export type MemoryPlace = "device" | "host-numa";

/** Physical memory of a device. It need not be mapped. Ended by `releaseMemory`. */
export interface DriverMemory {
  readonly ordinal: number;
  readonly byteLength: number;
  readonly place: MemoryPlace;
}

/** A range of addresses, mapped from its start without gaps. Ended by `releaseReservation`. */
export interface DriverReservation {
  readonly ordinal: number;
  readonly pointer: DevicePointer;
  readonly byteLength: number;
  /** How many bytes are mapped so far. */
  readonly mappedBytes: number;
}

export interface StagingMemory {
  readonly ordinal: number;
  readonly address: HostPointer;
  readonly byteLength: number;
  /** The memory itself. Do not use it after `freeStaging`. */
  readonly bytes: Uint8Array;
}

export interface MemoryCalls {
  /**
   * Allocates physical memory that can be exported. `host` zeroes it, `cuda` leaves it undefined.
   * @param byteLength a multiple of the granularity
   * @param place "device" by default; `host` knows no other
   * @throws OUT_OF_MEMORY; UNSUPPORTED if the device has no memory of that kind
   */
  createMemory(ordinal: number, byteLength: number, place?: MemoryPlace): DriverMemory;
  /**
   * Returns a descriptor that keeps the memory alive while it is open, in any process. The caller
   * owns it; close-on-exec is set. Call it only for memory that was created here. For imported
   * memory duplicate the descriptor it came from, because not every driver exports it again.
   */
  exportMemory(memory: DriverMemory): OwnedFd;
  /**
   * Imports the memory behind a descriptor. The descriptor may come from anywhere, this process
   * included, and stays the caller's. `host` checks here that the file has `byteLength` bytes and
   * a sealed size. `cuda` checks the size only in `mapMemory`, because the driver does not tell it.
   * @throws INVALID_DESCRIPTOR, also if the memory is known to be of another kind than `place`
   */
  importMemory(ordinal: number, fd: OwnedFd, byteLength: number, place?: MemoryPlace): DriverMemory;
  /** Releases the handle; mappings stay valid. Throws CLOSED the second time. */
  releaseMemory(memory: DriverMemory): void;
  /**
   * Maps the whole memory and gives its device access. With `copy` it is writable, and a page that
   * is written becomes a copy of this process alone.
   * @throws OUT_OF_MEMORY; INVALID_DESCRIPTOR if the memory is smaller than the descriptor claimed;
   * READ_ONLY for `read-write` through a read-only descriptor (host); UNSUPPORTED for `copy` unless
   * the driver has `memoryFiles`
   */
  mapMemory(memory: DriverMemory, access: MapAccess): DevicePointer;
  /** Ends a mapping of `mapMemory`. The caller makes sure that no stream still uses it. */
  unmapMemory(ordinal: number, pointer: DevicePointer): void;
  /**
   * The address at which the CPU sees device memory without a copy. Undefined if it cannot: on a
   * driver that is not `cpuVisible`, only `host-numa` memory has one.
   */
  cpuAddress(pointer: DevicePointer): HostPointer | undefined;

  /** Reserves addresses for memory that grows. @param byteLength a multiple of the granularity */
  reserveAddresses(ordinal: number, byteLength: number): DriverReservation;
  /**
   * Maps more memory behind what is mapped already, with the same access. Addresses in use stay the
   * same, and one operation may cross the pieces. The mapping keeps the memory after its handle is
   * released.
   * @throws LIMIT_EXCEEDED if the reservation is too small, and what `mapMemory` throws
   */
  extendMapping(reservation: DriverReservation, memory: DriverMemory, access: Access): void;
  /** Unmaps everything and frees the addresses. The caller makes sure that no stream uses them. */
  releaseReservation(reservation: DriverReservation): void;

  /** Allocates host memory with which copies are fastest. Ended by `freeStaging`. */
  allocateStaging(ordinal: number, byteLength: number): StagingMemory;
  freeStaging(staging: StagingMemory): void;

  /**
   * Makes shared host memory (a mapping of a memory file) usable by `waitWord` and `writeWord`.
   * With `read`, the memory may be mapped read-only, and streams may only wait on it. Register once
   * per device, with the same size and access on all devices.
   * @returns the address for streams; call `unregisterHostMemory` before the memory is unmapped
   * @throws RangeError if the range overlaps a registered one, UNSUPPORTED if the device cannot
   * register read-only memory
   */
  registerHostMemory(
    ordinal: number,
    pointer: HostPointer,
    byteLength: number,
    access: Access,
  ): DevicePointer;
  unregisterHostMemory(ordinal: number, pointer: HostPointer): void;
}
