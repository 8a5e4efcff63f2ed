/**
 * Memory pools of the host device: one memory file each, allocated from by first fit. An allocation is there at once; its end comes in the
 * order of its stream, so that its bytes go to nobody else before the work that still uses them is done.
 */
import { checkInteger, roundUp } from "../../base/bytes.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { acquireIn } from "../../base/scope.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { formatAddress } from "../address-table.js";
import type { DevicePointer, DriverStream } from "../gpu-driver.js";
import type { DriverPool, PoolCalls, PoolOptions, PoolStatistics } from "../pool-calls.js";
import { FirstFit } from "./first-fit.js";
import { refuseOverCapacity } from "./host-capacity.js";
import type { HostParts } from "./host-driver.js";
import { HostPoolFile, POOL_UNIT_BYTES, type PoolPlace } from "./host-pool-file.js";

class HostPool implements DriverPool {
  readonly ordinal = 0;
  readonly imported: boolean;
  readonly file: HostPoolFile;
  readonly shared: boolean;
  readonly releaseThresholdBytes: number;
  /** Undefined for an imported pool. */
  readonly fit: FirstFit | undefined;
  /** Allocations and imports that were not freed. */
  live = 0;
  /** Those too whose stream has not reached the free yet. */
  held = 0;
  destroyed = false;
  usedBytes = 0;
  usedHighBytes = 0;
  /** How far from its start the data may have pages. */
  reservedBytes = 0;
  reservedHighBytes = 0;

  constructor(file: HostPoolFile, options: PoolOptions | undefined) {
    this.file = file;
    this.imported = options === undefined;
    this.shared = options?.shared ?? false;
    this.releaseThresholdBytes = options?.releaseThresholdBytes ?? 0;
    this.fit = options === undefined ? undefined : new FirstFit(file.dataBytes, POOL_UNIT_BYTES);
  }

  take(byteLength: number, end: number): void {
    this.live += 1;
    this.held += 1;
    this.usedBytes += byteLength;
    this.usedHighBytes = Math.max(this.usedHighBytes, this.usedBytes);
    this.reservedBytes = this.imported ? this.usedBytes : Math.max(this.reservedBytes, end);
    this.reservedHighBytes = Math.max(this.reservedHighBytes, this.reservedBytes);
  }

  /** Gives back what lies behind the last allocation, but for `keepBytes` from the start. */
  trim(keepBytes: number): void {
    if (this.fit === undefined) return;
    const kept = Math.max(keepBytes, this.fit.usedEnd);
    if (kept >= this.reservedBytes) return;
    this.file.discardFrom(kept);
    this.reservedBytes = kept;
  }
}

interface HostAllocation extends PoolPlace {
  readonly pool: HostPool;
  freed: boolean;
}

export function createHostPools(parts: HostParts): PoolCalls {
  const pools = new HostPools(parts);
  return {
    createPool: (ordinal, options) => pools.create(ordinal, options),
    destroyPool: (pool) => pools.destroy(pool),
    exportPool: (pool) => pools.export(pool),
    importPool: (ordinal, fd) => pools.import(ordinal, fd),
    allocateFromPool: (pool, byteLength, stream) => pools.allocate(pool, byteLength, stream),
    freeToPool: (pointer, stream) => pools.free(pointer, stream),
    exportPoolPointer: (pointer) => pools.exportPointer(pointer),
    importPoolPointer: (pool, data) => pools.importPointer(pool, data),
    poolStatistics: (pool) => pools.statistics(pool),
    trimPool: (pool, keepBytes) => pools.trim(pool, keepBytes),
  };
}

class HostPools {
  readonly #parts: HostParts;
  readonly #allocations = new Map<DevicePointer, HostAllocation>();

  constructor(parts: HostParts) {
    this.#parts = parts;
  }

  create(ordinal: number, options: PoolOptions): DriverPool {
    this.#parts.session.use(ordinal);
    const maxBytes = checkInteger("Pool: maxBytes", options.maxBytes, 1);
    checkInteger("Pool: releaseThresholdBytes", options.releaseThresholdBytes, 0);
    return new HostPool(HostPoolFile.create(roundUp(maxBytes, POOL_UNIT_BYTES)), options);
  }

  destroy(pool: DriverPool): void {
    const own = this.#usable(pool, "destroy");
    if (own.live > 0) {
      throw new CudaIpcError("IN_USE", `Cannot destroy a pool of host: ${own.live} of its allocations are not freed`);
    }
    own.destroyed = true;
    if (own.held === 0) own.file.close();
  }

  export(pool: DriverPool): OwnedFd {
    const own = this.#usable(pool, "export");
    if (!own.imported && !own.shared) throw notShared("a pool");
    return own.file.export();
  }

  import(ordinal: number, fd: OwnedFd): DriverPool {
    this.#parts.session.use(ordinal);
    return new HostPool(HostPoolFile.open(fd), undefined);
  }

  allocate(pool: DriverPool, byteLength: number, stream: DriverStream): DevicePointer {
    const own = this.#usable(pool, "allocate from");
    this.#parts.streams.queueOf(stream);
    if (own.fit === undefined) {
      throw new CudaIpcError("UNSUPPORTED", "Cannot allocate from a pool of host: it was imported");
    }
    const { fit } = own;
    const offset = fit.allocate(byteLength);
    if (offset === undefined) {
      const found = `${fit.usedBytes} of ${fit.capacity} bytes are used, and no gap is long enough`;
      throw new CudaIpcError("OUT_OF_MEMORY", `Cannot allocate ${byteLength} bytes from a pool of host: ${found}`);
    }
    return acquireIn((scope) => {
      scope.defer(() => fit.free(offset));
      const place = { offset, byteLength: roundUp(byteLength, POOL_UNIT_BYTES) };
      refuseOverCapacity(offset + place.byteLength - own.reservedBytes);
      const pointer = this.#add(own, place);
      own.file.begin(place);
      return pointer;
    });
  }

  free(pointer: DevicePointer, stream: DriverStream): void {
    const queue = this.#parts.streams.queueOf(stream);
    const allocation = this.#allocation(pointer, "free");
    const { pool } = allocation;
    let ended = false;
    const end = (): void => {
      if (ended) return;
      ended = true;
      this.#end(pointer, allocation);
    };
    const step = () => {
      end();
      return "done" as const;
    };
    // WHY counted before it is enqueued, and taken back: a free on an idle stream is done within `enqueue`.
    allocation.freed = true;
    pool.live -= 1;
    try {
      queue.enqueue({ byteLength: 0, step, dropped: end });
    } catch (error) {
      // A stream that failed gets nowhere any more, so that nothing on it is to be waited for; with one that was destroyed, nothing began.
      if (!hasCode(error, "CLOSED")) end();
      allocation.freed = ended;
      if (!ended) pool.live += 1;
      throw error;
    }
  }

  exportPointer(pointer: DevicePointer): Uint8Array {
    this.#parts.session.use();
    const allocation = this.#allocation(pointer, "export");
    const { pool } = allocation;
    if (pool.imported) throw new CudaIpcError("UNSUPPORTED", "Cannot export pooled memory of host: it was imported");
    if (!pool.shared) throw notShared("memory of a pool");
    return pool.file.describe(allocation);
  }

  importPointer(pool: DriverPool, data: Uint8Array): { readonly pointer: DevicePointer; readonly byteLength: number } {
    const own = this.#usable(pool, "import memory of");
    if (!own.imported) {
      throw new CudaIpcError("OWN_HANDLE", "Cannot import memory of a pool of host: the pool was created here");
    }
    const place = own.file.find(data);
    if (this.#allocations.has(own.file.addressOf(place.offset))) {
      throw new CudaIpcError("IN_USE", "Cannot import memory of a pool of host: it is imported already");
    }
    return { pointer: this.#add(own, place), byteLength: place.byteLength };
  }

  statistics(pool: DriverPool): PoolStatistics {
    const { reservedBytes, reservedHighBytes, usedBytes, usedHighBytes } = this.#usable(pool, "inspect");
    return { reservedBytes, reservedHighBytes, usedBytes, usedHighBytes };
  }

  trim(pool: DriverPool, keepBytes: number): void {
    this.#usable(pool, "trim").trim(checkInteger("Pool: keepBytes", keepBytes, 0));
  }

  #add(pool: HostPool, place: PoolPlace): DevicePointer {
    const start = pool.file.addressOf(place.offset);
    this.#parts.memories.addRange({ start, byteLength: place.byteLength, access: "read-write" });
    this.#allocations.set(start, { ...place, pool, freed: false });
    pool.take(place.byteLength, place.offset + place.byteLength);
    return start;
  }

  #end(pointer: DevicePointer, { pool, offset, byteLength }: HostAllocation): void {
    this.#allocations.delete(pointer);
    this.#parts.memories.removeRange(pointer);
    pool.usedBytes -= byteLength;
    pool.held -= 1;
    if (pool.fit === undefined) pool.reservedBytes = pool.usedBytes;
    else {
      pool.file.end(offset);
      pool.fit.free(offset);
      if (!pool.shared && pool.reservedBytes > pool.releaseThresholdBytes) pool.trim(pool.releaseThresholdBytes);
    }
    if (pool.destroyed && pool.held === 0) pool.file.close();
  }

  #allocation(pointer: DevicePointer, verb: string): HostAllocation {
    const allocation = this.#allocations.get(pointer);
    if (allocation !== undefined && !allocation.freed) return allocation;
    throw new RangeError(`Cannot ${verb} ${formatAddress(pointer)}: no memory of a pool starts there`);
  }

  #usable(pool: DriverPool, verb: string): HostPool {
    this.#parts.session.use();
    if (!(pool instanceof HostPool)) throw new TypeError(`Cannot ${verb} a pool of another driver`);
    if (pool.destroyed) throw new CudaIpcError("CLOSED", `Cannot ${verb} a pool of host: it was destroyed`);
    return pool;
  }
}

function notShared(what: string): CudaIpcError {
  return new CudaIpcError("UNSUPPORTED", `Cannot export ${what} of host: the pool was not created to be shared`);
}
