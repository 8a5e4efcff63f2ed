/**
 * The state of one pool in this process, shared by all its `MemoryPool` objects: the driver's pool,
 * a stream of its own, and one mapping for each allocation, however often it is imported. Every
 * operation completes within one call, so lookups, imports and releases never interleave.
 */
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { DevicePointer } from "../../driver/gpu-driver.js";
import type { DriverPool } from "../../driver/pool-calls.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { Device } from "../device.js";
import { Stream } from "../order/stream.js";
import type { MemoryDescriptor } from "./mapped-memory.js";
import { isPast, PoolMemory } from "./pool-memory.js";

/**
 * The pools that this process has open, by id.
 * WHY one table for the process and not one for each device: the driver miscounts imports across
 * the whole process.
 */
const cores = new Map<string, PoolCore>();

export interface PoolFacts {
  readonly id: string;
  readonly maxBytes: number;
  readonly shared: boolean;
}

export class PoolCore {
  readonly device: Device;
  readonly id: string;
  readonly imported: boolean;
  readonly maxBytes: number;
  readonly shared: boolean;
  /** The stream of allocations and frees that name no other stream. It does no other work. */
  readonly stream: Stream;
  readonly pool: DriverPool;
  /** The buffers count themselves here. */
  openBuffers = 0;
  #handles = 0;
  #mappings = 0;
  /** Imported and exported memory. The key is the driver's bytes in base64. */
  readonly #byData = new Map<string, PoolMemory>();
  /** Imports that a stream frees, until the stream is found to have reached the free. */
  readonly #freed = new Map<string, Stream>();

  private constructor(device: Device, facts: PoolFacts, pool: DriverPool, stream: Stream) {
    this.device = device;
    this.id = facts.id;
    this.maxBytes = facts.maxBytes;
    this.shared = facts.shared;
    this.imported = pool.imported;
    this.pool = pool;
    this.stream = stream;
  }

  /**
   * Returns the pool with this id, and opens it if this process does not have it open. The caller
   * gets one handle and must call `release` once.
   */
  static open(device: Device, facts: PoolFacts, openPool: () => DriverPool): PoolCore {
    const known = cores.get(facts.id);
    if (known !== undefined) return known.#retain(device);
    return acquireIn((scope) => {
      const stream = scope.own(new Stream(device), (it) => it.close());
      const pool = scope.own(openPool(), (it) => device.driver.destroyPool(it));
      const core = new PoolCore(device, facts, pool, stream);
      core.#handles = 1;
      cores.set(core.id, core);
      return core;
    });
  }

  /** Whether `release` would drop the last handle while buffers are open. */
  get lastHandleInUse(): boolean {
    return this.#handles === 1 && this.openBuffers > 0;
  }

  release(): void {
    this.#handles -= 1;
    this.#endIfUnused();
  }

  allocate(byteLength: number, stream: Stream): PoolMemory {
    const pointer = this.device.driver.allocateFromPool(this.pool, byteLength, stream.handle);
    return this.#mapped(pointer, byteLength, stream, undefined);
  }

  /**
   * Returns one use of the mapping that the driver's bytes identify.
   * @throws INVALID_HANDLE
   * @throws IN_USE while an earlier import of the same memory waits to be freed
   * @throws INVALID_DESCRIPTOR if the memory has fewer bytes than the descriptor claims
   */
  import(data: Uint8Array, byteLengthMin: number): PoolMemory {
    const key = Buffer.from(data).toString("base64");
    const mapped = this.#byData.get(key)?.retain() ?? this.#importNew(key, data);
    if (byteLengthMin <= mapped.byteLength) return mapped;
    const error =
      `Cannot import memory of pool ${this.id}: ` +
      `the descriptor claims ${byteLengthMin} bytes, it has ${mapped.byteLength}`;
    mapped.release();
    throw new CudaIpcError("INVALID_DESCRIPTOR", error);
  }

  /**
   * Returns a file descriptor by which other processes import the pool. The caller owns it.
   * @throws UNSUPPORTED
   */
  exportFd(): OwnedFd {
    return this.device.driver.exportPool(this.pool);
  }

  /** Returns the driver's bytes that identify an allocation. */
  exportPointer(pointer: DevicePointer): Uint8Array {
    return this.device.driver.exportPoolPointer(pointer);
  }

  /** @param data the driver's bytes of the allocation, if known */
  free(pointer: DevicePointer, stream: Stream, data: Uint8Array | undefined): void {
    if (this.imported && data !== undefined)
      this.#freed.set(Buffer.from(data).toString("base64"), stream);
    this.device.driver.freeToPool(pointer, stream.handle);
  }

  /** Records exported memory, so that an import in this process uses the same mapping. */
  remember(data: string, mapped: PoolMemory): void {
    if (this.#byData.has(data)) return;
    this.#byData.set(data, mapped);
    mapped.onUnmapped(() => this.#byData.delete(data));
  }

  #importNew(key: string, data: Uint8Array): PoolMemory {
    if (!this.imported) {
      const found = "it was not exported here, or was freed";
      throw new CudaIpcError(
        "INVALID_HANDLE",
        `Cannot import memory of pool ${this.id}, which is of this process: ${found}`,
      );
    }
    this.#forgetFreed();
    if (this.#freed.has(key)) {
      const found =
        "an earlier import of it waits to be freed by a stream that has not reached the free";
      throw new CudaIpcError("IN_USE", `Cannot import memory of pool ${this.id}: ${found}`);
    }
    const { pointer, byteLength } = this.device.driver.importPoolPointer(this.pool, data);
    const memory = this.#mapped(pointer, byteLength, this.stream, data);
    this.remember(key, memory);
    return memory;
  }

  /** Takes ownership of memory of the pool. Uses no scope, because this is on the hot path. */
  #mapped(
    pointer: DevicePointer,
    byteLength: number,
    stream: Stream,
    data: Uint8Array | undefined,
  ): PoolMemory {
    try {
      const memory = new PoolMemory(this, { pointer, byteLength, stream, data });
      this.#mappings += 1;
      return memory;
    } catch (error) {
      this.device.driver.freeToPool(pointer, stream.handle);
      throw error;
    }
  }

  /** Each mapping calls this once, after it was freed. */
  mappingEnded(): void {
    this.#mappings -= 1;
    this.#endIfUnused();
  }

  #forgetFreed(): void {
    for (const [key, stream] of this.#freed) if (isPast(stream)) this.#freed.delete(key);
  }

  #retain(device: Device): PoolCore {
    if (device !== this.device) {
      const found = "this process has it open already, on another Device object; use that one";
      throw new CudaIpcError("IN_USE", `Cannot import pool ${this.id} on ${device.name}: ${found}`);
    }
    this.#handles += 1;
    return this;
  }

  /**
   * Closes the stream last, because on the host device this drops the frees that it has not
   * reached.
   */
  #endIfUnused(): void {
    if (this.#handles > 0 || this.#mappings > 0) return;
    cores.delete(this.id);
    releaseAll([() => this.device.driver.destroyPool(this.pool), () => this.stream.close()]);
  }
}

/**
 * Imports memory of a pool, and keeps the pool open while the memory is mapped.
 * @throws INVALID_DESCRIPTOR
 */
export function openPoolMemory(
  device: Device,
  { pooled, allocationByteLength }: MemoryDescriptor,
  fd: OwnedFd,
): PoolMemory {
  if (pooled === undefined) throw new TypeError("memory of a pool without a pool id");
  const { pool: id, maxBytes, data } = pooled;
  const { driver, ordinal } = device;
  const core = PoolCore.open(device, { id, maxBytes, shared: true }, () =>
    driver.importPool(ordinal, fd),
  );
  return acquireIn((scope) => {
    scope.defer(() => core.release());
    const memory = core.import(Uint8Array.from(Buffer.from(data, "base64")), allocationByteLength);
    memory.onUnmapped(() => core.release());
    return memory;
  });
}
