/**
 * The seam's part on memory pools: allocation in stream order, and sharing by one descriptor for the pool and 64 bytes for each allocation.
 * A shared pool only grows; its memory goes back when it is destroyed and nothing imported from it is left.
 */
import type { OwnedFd } from "../os/owned-fd.js";
import type { DevicePointer, DriverStream } from "./gpu-driver.js";

/** Ended by `destroyPool`. */
export interface DriverPool {
  readonly ordinal: number;
  readonly imported: boolean;
}

export interface PoolOptions {
  /** The most that the pool ever holds; the driver rounds it up. CUDA drivers before 12.2 know no such limit. */
  readonly maxBytes: number;
  /** What a pool that is not shared keeps for later allocations when its memory is freed; the rest goes back. */
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
  /** @throws UNSUPPORTED where the device has no pools, or none that can be shared */
  createPool(ordinal: number, options: PoolOptions): DriverPool;
  /**
   * Ends a pool whose allocations, or whose imports here, have been freed; their streams need not have got there. Imports elsewhere
   * keep the memory until they are freed.
   * @throws IN_USE where some have not been freed
   */
  destroyPool(pool: DriverPool): void;
  /**
   * A descriptor by which other processes import the pool. The caller owns it; close-on-exec is set.
   * @throws UNSUPPORTED for a pool that is not shared, or was imported
   */
  exportPool(pool: DriverPool): OwnedFd;
  /** The descriptor stays the caller's. @throws INVALID_DESCRIPTOR for what is no pool */
  importPool(ordinal: number, fd: OwnedFd): DriverPool;
  /**
   * Enqueues an allocation; other streams may use the memory after a point of this stream that is later. Its content is undefined.
   * Memory whose free was enqueued but not reached may be given out again by `cuda`, later in order, and is not by `host`.
   * @throws OUT_OF_MEMORY beyond `maxBytes`, UNSUPPORTED from an imported pool
   */
  allocateFromPool(pool: DriverPool, byteLength: number, stream: DriverStream): DevicePointer;
  /**
   * Enqueues the end of an allocation or of an import. All importers have freed theirs before the exporter frees it.
   * @throws RangeError for what is not allocated in or imported from a pool
   */
  freeToPool(pointer: DevicePointer, stream: DriverStream): void;
  /**
   * IPC_HANDLE_BYTES bytes that name an allocation to a process that has imported its pool.
   * @throws UNSUPPORTED for memory of a pool that is not shared, or was imported; RangeError for what is not of a pool
   */
  exportPoolPointer(pointer: DevicePointer): Uint8Array;
  /**
   * The allocation behind exported bytes. The allocation has been done by the exporter's stream before this memory is touched.
   * Once at a time for the same bytes, by one driver of a process: freeing one import of two unmaps both on today's CUDA drivers.
   * @throws INVALID_HANDLE for bytes of another pool or another length, and of freed memory where the driver knows (`host` always does);
   * IN_USE while it is imported already, OWN_HANDLE where this driver created the pool
   */
  importPoolPointer(
    pool: DriverPool,
    data: Uint8Array,
  ): { readonly pointer: DevicePointer; readonly byteLength: number };
  /** Of an imported pool: what this process alone did with it. */
  poolStatistics(pool: DriverPool): PoolStatistics;
  /** Gives memory back down to `keepBytes`. Without effect on shared pools of today's CUDA drivers, and on imported ones. */
  trimPool(pool: DriverPool, keepBytes: number): void;
}
