/** A memory pool of the CUDA driver, and the address ranges in it. */
import type { AddressRange } from "../common/address-table.js";
import type { DevicePointer } from "../memory-calls.js";
import type { DriverPool, PoolStatistics } from "../pool-calls.js";

/** Counts the bytes imported from a pool, because driver 580 does not tell. */
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
  /** Whether the pool itself was exported. */
  exported = false;
  readonly ordinal: number;
  readonly handle: bigint;
  readonly imported: boolean;
  readonly shared: boolean;
  /** How many allocations and imports are not freed. */
  live = 0;
  destroyed = false;

  constructor(
    ordinal: number,
    handle: bigint,
    kind: { readonly imported: boolean; readonly shared: boolean },
  ) {
    this.ordinal = ordinal;
    this.handle = handle;
    this.imported = kind.imported;
    this.shared = kind.shared;
  }
}

/**
 * An allocation in a pool, or an import from one. It names its pool, because a second table by
 * address would cost as much as the driver's call.
 */
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
