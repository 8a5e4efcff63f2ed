/**
 * The pool calls of the seam: allocation in stream order. A pool is shared by one descriptor, and
 * each of its allocations by 64 bytes. A shared pool only grows. Its memory is freed when the pool
 * is destroyed and all imports from it are gone.
 */
import type { OwnedFd } from "../os/owned-fd.js";
import type { DevicePointer } from "./memory-calls.js";
import type { DriverStream } from "./stream-calls.js";

/** Ended by `destroyPool`. */
export interface DriverPool {
  readonly ordinal: number;
  readonly imported: boolean;
}

export interface PoolOptions {
  /** The most that the pool may hold, rounded up by the driver. CUDA before 12.2 ignores it. */
  readonly maxBytes: number;
  /** How much freed memory a pool that is not shared keeps for later allocations. */
  readonly releaseThresholdBytes: number;
  /** Whether the pool can be exported. */
  readonly shared: boolean;
}

export interface PoolStatistics {
  readonly reservedBytes: number;
  readonly reservedHighBytes: number;
  readonly usedBytes: number;
  readonly usedHighBytes: number;
}

export interface PoolCalls {
  /** @throws UNSUPPORTED if the device has no pools, or none that can be shared */
  createPool(ordinal: number, options: PoolOptions): DriverPool;
  /**
   * Ends a pool. Its allocations and imports in this process must be freed, but their streams need
   * not have reached the frees. Imports in other processes keep the memory until they are freed.
   * @throws IN_USE if some are not freed
   */
  destroyPool(pool: DriverPool): void;
  /**
   * Returns a descriptor by which other processes import the pool. The caller owns it;
   * close-on-exec is set.
   * @throws UNSUPPORTED for a pool that is not shared, or was imported
   */
  exportPool(pool: DriverPool): OwnedFd;
  /** The descriptor stays the caller's. @throws INVALID_DESCRIPTOR if it is not a pool's */
  importPool(ordinal: number, fd: OwnedFd): DriverPool;
  /**
   * Enqueues an allocation of undefined content. Other streams may use it after a later point of
   * this stream. `cuda` may reuse memory whose free is enqueued but not reached; `host` does not.
   * @throws OUT_OF_MEMORY beyond `maxBytes`, UNSUPPORTED from an imported pool
   */
  allocateFromPool(pool: DriverPool, byteLength: number, stream: DriverStream): DevicePointer;
  /**
   * Enqueues the free of an allocation or of an import. All importers free theirs before the
   * exporter does.
   * @throws RangeError if no allocation or import of a pool starts there
   */
  freeToPool(pointer: DevicePointer, stream: DriverStream): void;
  /**
   * Returns IPC_HANDLE_BYTES bytes that name an allocation to a process that imported its pool.
   * @throws UNSUPPORTED if the pool is not shared, or was imported; RangeError if no memory of a
   * pool starts there
   */
  exportPoolPointer(pointer: DevicePointer): Uint8Array;
  /**
   * Imports an allocation. The exporter's stream must have passed the allocation before this memory
   * is touched. Import the same bytes only once at a time, by one driver of a process: on today's
   * CUDA drivers freeing one of two imports unmaps both.
   * @throws INVALID_HANDLE for bytes of another pool or length, and for freed memory if the driver
   * knows (`host` always does); IN_USE if it is imported already; OWN_HANDLE if this driver created
   * the pool
   */
  importPoolPointer(
    pool: DriverPool,
    data: Uint8Array,
  ): { readonly pointer: DevicePointer; readonly byteLength: number };
  /** For an imported pool, counts only what this process imported from it. */
  poolStatistics(pool: DriverPool): PoolStatistics;
  /**
   * Frees unused memory down to `keepBytes`. Does nothing for an imported pool, nor for a shared
   * pool of today's CUDA drivers.
   */
  trimPool(pool: DriverPool, keepBytes: number): void;
}
