/**
 * Memory pools of the host device. Each is one memory file, allocated by first fit. An allocation
 * takes effect at once. A free takes effect in stream order, so that the bytes are not reused while
 * earlier work still uses them.
 */
import { checkInteger, roundUp } from "../../base/bytes.js";
import { CudaIpcError, hasCode } from "../../base/errors.js";
import { POOL_UNIT_BYTES } from "../../base/pool-layout.js";
import { acquireIn } from "../../base/scope.js";
import { formatAddress } from "../common/address-table.js";
import type { DevicePointer } from "../memory-calls.js";
import type { DriverPool, PoolCalls, PoolOptions } from "../pool-calls.js";
import { FirstFit } from "./first-fit.js";
import type { HostAddresses } from "./host-addresses.js";
import { refuseOverCapacity } from "./host-capacity.js";
import { HostPoolFile, type PoolExtent } from "./host-pool-file.js";
import type { HostSession } from "./host-session.js";
import type { HostStream } from "./host-stream.js";
import type { HostStreams } from "./host-streams.js";

class HostPool implements DriverPool {
  readonly ordinal = 0;
  readonly imported: boolean;
  readonly file: HostPoolFile;
  readonly shared: boolean;
  readonly releaseThresholdBytes: number;
  /** Undefined for an imported pool. */
  readonly fit: FirstFit | undefined;
  /** How many allocations and imports are not freed. */
  live = 0;
  /** The same, but a free counts only when its stream has reached it. */
  held = 0;
  destroyed = false;
  usedBytes = 0;
  usedHighBytes = 0;
  /** Up to this offset the data may have pages. */
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

  /** Frees the pages behind the last allocation and behind the first `keepBytes`. */
  trim(keepBytes: number): void {
    if (this.fit === undefined) return;
    const kept = Math.max(keepBytes, this.fit.usedEnd);
    if (kept >= this.reservedBytes) return;
    this.file.discardFrom(kept);
    this.reservedBytes = kept;
  }
}

interface HostAllocation extends PoolExtent {
  readonly pool: HostPool;
  freed: boolean;
}

export function hostPools(
  session: HostSession,
  addresses: HostAddresses,
  streams: HostStreams,
): PoolCalls {
  return { ...poolCalls(session), ...pooledMemoryCalls(session, addresses, streams) };
}

type PooledMemoryCalls = Pick<
  PoolCalls,
  "allocateFromPool" | "freeToPool" | "exportPoolPointer" | "importPoolPointer"
>;

/** The calls on pools themselves. */
function poolCalls(session: HostSession): Omit<PoolCalls, keyof PooledMemoryCalls> {
  return {
    createPool(ordinal, options) {
      session.use(ordinal);
      const maxBytes = checkInteger("Pool: maxBytes", options.maxBytes, 1);
      checkInteger("Pool: releaseThresholdBytes", options.releaseThresholdBytes, 0);
      return new HostPool(HostPoolFile.create(roundUp(maxBytes, POOL_UNIT_BYTES)), options);
    },

    destroyPool(pool) {
      const own = usable(session, pool, "destroy");
      if (own.live > 0) {
        const found = `${own.live} of its allocations are not freed`;
        throw new CudaIpcError("IN_USE", `Cannot destroy a pool of host: ${found}`);
      }
      own.destroyed = true;
      if (own.held === 0) own.file.close();
    },

    exportPool(pool) {
      const own = usable(session, pool, "export");
      if (!own.imported && !own.shared) throw notShared("a pool");
      return own.file.export();
    },

    importPool(ordinal, fd) {
      session.use(ordinal);
      return new HostPool(HostPoolFile.open(fd), undefined);
    },

    poolStatistics(pool) {
      const own = usable(session, pool, "inspect");
      const { reservedBytes, reservedHighBytes, usedBytes, usedHighBytes } = own;
      return { reservedBytes, reservedHighBytes, usedBytes, usedHighBytes };
    },

    trimPool(pool, keepBytes) {
      usable(session, pool, "trim").trim(checkInteger("Pool: keepBytes", keepBytes, 0));
    },
  };
}

/** The calls on memory of a pool. */
function pooledMemoryCalls(
  session: HostSession,
  addresses: HostAddresses,
  streams: HostStreams,
): PooledMemoryCalls {
  const allocations = new Allocations(addresses);
  return {
    allocateFromPool(pool, byteLength, stream) {
      const own = usable(session, pool, "allocate from");
      streams.queueOf(stream);
      if (own.fit === undefined)
        throw new CudaIpcError(
          "UNSUPPORTED",
          "Cannot allocate from a pool of host: it was imported",
        );
      return allocations.allocate(own, own.fit, byteLength);
    },

    freeToPool(pointer, stream) {
      const queue = streams.queueOf(stream);
      allocations.free(pointer, queue);
    },

    exportPoolPointer(pointer) {
      session.use();
      const allocation = allocations.find(pointer, "export");
      const { pool } = allocation;
      if (pool.imported)
        throw new CudaIpcError(
          "UNSUPPORTED",
          "Cannot export pooled memory of host: it was imported",
        );
      if (!pool.shared) throw notShared("memory of a pool");
      return pool.file.describe(allocation);
    },

    importPoolPointer(pool, data) {
      const own = usable(session, pool, "import memory of");
      const attempt = "Cannot import memory of a pool of host";
      if (!own.imported)
        throw new CudaIpcError("OWN_HANDLE", `${attempt}: the pool was created here`);
      const extent = own.file.find(data);
      if (allocations.has(own.file.addressOf(extent.offset)))
        throw new CudaIpcError("IN_USE", `${attempt}: it is imported already`);
      return { pointer: allocations.add(own, extent), byteLength: extent.byteLength };
    },
  };
}

/** The allocations and imports of all pools, by address. */
class Allocations {
  readonly #addresses: HostAddresses;
  readonly #byPointer = new Map<DevicePointer, HostAllocation>();

  constructor(addresses: HostAddresses) {
    this.#addresses = addresses;
  }

  has(pointer: DevicePointer): boolean {
    return this.#byPointer.has(pointer);
  }

  find(pointer: DevicePointer, verb: string): HostAllocation {
    const allocation = this.#byPointer.get(pointer);
    if (allocation !== undefined && !allocation.freed) return allocation;
    const found = "no memory of a pool starts there";
    throw new RangeError(`Cannot ${verb} ${formatAddress(pointer)}: ${found}`);
  }

  add(pool: HostPool, extent: PoolExtent): DevicePointer {
    const start = pool.file.addressOf(extent.offset);
    this.#addresses.addRange({ start, byteLength: extent.byteLength, access: "read-write" });
    this.#byPointer.set(start, { ...extent, pool, freed: false });
    pool.take(extent.byteLength, extent.offset + extent.byteLength);
    return start;
  }

  allocate(pool: HostPool, fit: FirstFit, byteLength: number): DevicePointer {
    const offset = fit.allocate(byteLength);
    if (offset === undefined) {
      const found = `${fit.usedBytes} of ${fit.capacity} bytes are used, and no gap is long enough`;
      throw new CudaIpcError(
        "OUT_OF_MEMORY",
        `Cannot allocate ${byteLength} bytes from a pool of host: ${found}`,
      );
    }
    return acquireIn((scope) => {
      scope.defer(() => fit.free(offset));
      const extent = { offset, byteLength: roundUp(byteLength, POOL_UNIT_BYTES) };
      refuseOverCapacity(offset + extent.byteLength - pool.reservedBytes);
      const pointer = this.add(pool, extent);
      pool.file.begin(extent);
      return pointer;
    });
  }

  free(pointer: DevicePointer, queue: HostStream): void {
    const allocation = this.find(pointer, "free");
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
    // WHY counted first: on an idle stream `enqueue` itself completes the free.
    allocation.freed = true;
    pool.live -= 1;
    try {
      queue.enqueue({ byteLength: 0, step, dropped: end });
    } catch (error) {
      // A failed stream runs nothing more, so the free takes effect now. On a destroyed stream the
      // free never began.
      if (!hasCode(error, "CLOSED")) end();
      allocation.freed = ended;
      if (!ended) pool.live += 1;
      throw error;
    }
  }

  #end(pointer: DevicePointer, { pool, offset, byteLength }: HostAllocation): void {
    this.#byPointer.delete(pointer);
    this.#addresses.removeRange(pointer);
    pool.usedBytes -= byteLength;
    pool.held -= 1;
    if (pool.fit === undefined) pool.reservedBytes = pool.usedBytes;
    else {
      pool.file.end(offset);
      pool.fit.free(offset);
      if (!pool.shared && pool.reservedBytes > pool.releaseThresholdBytes)
        pool.trim(pool.releaseThresholdBytes);
    }
    if (pool.destroyed && pool.held === 0) pool.file.close();
  }
}

function usable(session: HostSession, pool: DriverPool, verb: string): HostPool {
  session.use();
  if (!(pool instanceof HostPool)) throw new TypeError(`Cannot ${verb} a pool of another driver`);
  if (!pool.destroyed) return pool;
  throw new CudaIpcError("CLOSED", `Cannot ${verb} a pool of host: it was destroyed`);
}

function notShared(what: string): CudaIpcError {
  return new CudaIpcError(
    "UNSUPPORTED",
    `Cannot export ${what} of host: the pool was not created to be shared`,
  );
}
