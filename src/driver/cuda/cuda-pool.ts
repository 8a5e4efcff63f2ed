/** A memory pool of the CUDA driver as its calls know it, and the memory in it. */
import type { AddressRange } from "../address-table.js";
import type { DevicePointer } from "../gpu-driver.js";
import type { DriverPool, PoolStatistics } from "../pool-calls.js";

/** What is imported from a pool, and how much it was at most. */
class ImportedBytes {
  #used = 0;
  #high = 0;

  add(byteLength: number): void {
    this.#used += byteLength;
    this.#high = Math.max(this.#high, this.#used);
  }

  remove(byteLength: number): void {
    this.#used -= byteLength;
  }

  statistics(): PoolStatistics {
    const [used, high] = [this.#used, this.#high];
    return { reservedBytes: used, reservedHighBytes: high, usedBytes: used, usedHighBytes: high };
  }
}

export class CudaPool implements DriverPool {
  readonly importedBytes = new ImportedBytes();
  /** Whether the pool itself was exported so far. */
  exported = false;
  readonly ordinal: number;
  readonly handle: bigint;
  readonly imported: boolean;
  readonly shared: boolean;
  /** Allocations and imports that were not freed. */
  live = 0;
  destroyed = false;

  constructor(ordinal: number, handle: bigint, kind: { readonly imported: boolean; readonly shared: boolean }) {
    this.ordinal = ordinal;
    this.handle = handle;
    this.imported = kind.imported;
    this.shared = kind.shared;
  }
}

/** An allocation in a pool, or an import from one. WHY the pool is kept with it: a second table by address would cost as much as the call. */
export class PooledRange implements AddressRange {
  readonly start: DevicePointer;
  readonly byteLength: number;
  readonly access = "read-write";
  readonly pool: CudaPool;

  constructor(start: DevicePointer, byteLength: number, pool: CudaPool) {
    this.start = start;
    this.byteLength = byteLength;
    this.pool = pool;
  }
}
