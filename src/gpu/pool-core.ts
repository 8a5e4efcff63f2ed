/**
 * What all `MemoryPool` objects of this process on one pool share: the driver's pool, a stream of its own, and the mappings, each
 * once however often it is imported. Ends when nothing of it is left. Everything here is done within one call, so that a lookup, an import
 * and a release never come between each other.
 */
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import type { DevicePointer } from "../driver/gpu-driver.js";
import type { DriverPool } from "../driver/pool-calls.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { Device } from "./device.js";
import { MappedMemory } from "./mapped-memory.js";
import { isPast, PooledMemory } from "./pooled-memory.js";
import { Stream } from "./stream.js";

/**
 * The pools that this process has open, by their ids.
 * WHY one table for the process and not one for each device: the driver counts imports of a process wrongly, whatever made them.
 */
const cores = new Map<string, PoolCore>();

export interface PoolFacts {
  readonly id: string;
  readonly maxBytes: number;
}

export class PoolCore {
  readonly device: Device;
  readonly id: string;
  readonly imported: boolean;
  readonly maxBytes: number;
  /** In which memory is allocated and freed where no other stream is named; there is no other work on it. */
  readonly stream: Stream;
  readonly pool: DriverPool;
  /** Counted by the buffers themselves. */
  openBuffers = 0;
  #handles = 0;
  #mappings = 0;
  /** What was imported or exported, by the driver's bytes in base64. */
  readonly #byData = new Map<string, MappedMemory>();
  /** Imports that were freed in the order of a stream, until it is seen to have got there. */
  readonly #freed = new Map<string, Stream>();

  private constructor(device: Device, facts: PoolFacts, pool: DriverPool, stream: Stream) {
    this.device = device;
    this.id = facts.id;
    this.maxBytes = facts.maxBytes;
    this.imported = pool.imported;
    this.pool = pool;
    this.stream = stream;
  }

  /** The pool of this id, opened now where this process has it not open. The caller gives one handle back with `release`. */
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

  /** Whether `release` would end the last handle while buffers are open. */
  get lastHandleInUse(): boolean {
    return this.#handles === 1 && this.openBuffers > 0;
  }

  release(): void {
    this.#handles -= 1;
    this.#endIfUnused();
  }

  allocate(byteLength: number, stream: Stream): MappedMemory {
    const pointer = this.device.driver.allocateFromPool(this.pool, byteLength, stream.handle);
    return this.#mapped(pointer, byteLength, stream, undefined);
  }

  /**
   * One use of the mapping that the bytes name.
   * @throws INVALID_HANDLE, IN_USE while an earlier import of them waits to be freed; INVALID_DESCRIPTOR where it has fewer bytes
   */
  import(data: Uint8Array, byteLengthMin: number): MappedMemory {
    const key = Buffer.from(data).toString("base64");
    const mapped = this.#byData.get(key)?.retain() ?? this.#importNew(key, data);
    if (byteLengthMin <= mapped.byteLength) return mapped;
    const error = `Cannot import memory of pool ${this.id}: the descriptor claims ${byteLengthMin} bytes, it has ${mapped.byteLength}`;
    mapped.release();
    throw new CudaIpcError("INVALID_DESCRIPTOR", error);
  }

  /** What other processes import the pool by; the caller owns it. @throws UNSUPPORTED */
  exportFd(): OwnedFd {
    return this.device.driver.exportPool(this.pool);
  }

  /** The driver's bytes of an allocation. */
  exportPointer(pointer: DevicePointer): Uint8Array {
    return this.device.driver.exportPoolPointer(pointer);
  }

  /** @param data what names it, where that was asked for */
  free(pointer: DevicePointer, stream: Stream, data: Uint8Array | undefined): void {
    if (this.imported && data !== undefined) this.#freed.set(Buffer.from(data).toString("base64"), stream);
    this.device.driver.freeToPool(pointer, stream.handle);
  }

  /** Makes exported memory known, so that an import of it in this process is a use of the same mapping. */
  remember(data: string, mapped: MappedMemory): void {
    if (this.#byData.has(data)) return;
    this.#byData.set(data, mapped);
    mapped.onUnmapped(() => this.#byData.delete(data));
  }

  #importNew(key: string, data: Uint8Array): MappedMemory {
    if (!this.imported) {
      const found = "it was not exported here, or was freed";
      throw new CudaIpcError(
        "INVALID_HANDLE",
        `Cannot import memory of pool ${this.id}, which is of this process: ${found}`,
      );
    }
    this.#forgetFreed();
    if (this.#freed.has(key)) {
      const found = "an earlier import of it waits to be freed by a stream that has not got there";
      throw new CudaIpcError("IN_USE", `Cannot import memory of pool ${this.id}: ${found}`);
    }
    const { pointer, byteLength } = this.device.driver.importPoolPointer(this.pool, data);
    const mapped = this.#mapped(pointer, byteLength, this.stream, data);
    this.remember(key, mapped);
    return mapped;
  }

  /** Takes over memory of the pool. WHY without a scope: it is the shortest way between an allocation and its use, taken very often. */
  #mapped(pointer: DevicePointer, byteLength: number, stream: Stream, data: Uint8Array | undefined): MappedMemory {
    try {
      const pooled = new PooledMemory(this, pointer, stream, data);
      const unmap = () => this.#unmap(pooled);
      const mapped = new MappedMemory(this.device, { pointer, byteLength, mechanism: "pool", unmap, pooled });
      this.#mappings += 1;
      return mapped;
    } catch (error) {
      this.device.driver.freeToPool(pointer, stream.handle);
      throw error;
    }
  }

  #unmap(pooled: PooledMemory): void {
    try {
      pooled.free();
    } finally {
      this.#mappingEnded();
    }
  }

  #mappingEnded(): void {
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

  /** WHY the stream last: on the host device its end is the end of frees that it has not reached. */
  #endIfUnused(): void {
    if (this.#handles > 0 || this.#mappings > 0) return;
    cores.delete(this.id);
    releaseAll([() => this.device.driver.destroyPool(this.pool), () => this.stream.close()]);
  }
}
