/**
 * A memory pool: allocation and freeing in the order of streams, for far less than memory of its own costs, and sharing by one
 * descriptor for the pool and some bytes for each buffer. How it is kept is in pool-core.ts.
 */
import { randomUUID } from "node:crypto";
import type { DType } from "../array/dtype.js";
import { arrayByteLength, contiguousLayout } from "../array/layout.js";
import { checkInteger, formatBytes, roundUp } from "../base/bytes.js";
import { CudaIpcError } from "../base/errors.js";
import { checkOneOf } from "../base/one-of.js";
import { acquireIn } from "../base/scope.js";
import type { PoolStatistics } from "../driver/pool-calls.js";
import type { Access } from "../os/mapping.js";
import type { OwnedFd } from "../os/owned-fd.js";
import {
  checkPoolDescriptor,
  checkPooledDescriptor,
  POOL_DESCRIPTOR_VERSION,
  type PoolDescriptor,
  type PooledDescriptor,
} from "../wire/pool-descriptor.js";
import type { Device } from "./device.js";
import { type ArrayOptions, DeviceArray } from "./device-array.js";
import { DeviceBuffer } from "./device-buffer.js";
import { PoolCore } from "./pool-core.js";
import { isPast } from "./pooled-memory.js";
import type { Stream } from "./stream.js";

export interface MemoryPoolOptions {
  /** The most that the pool ever holds. A shared pool of a GPU only grows, up to this. */
  readonly maxBytes: number;
  /** What is kept for later allocations when buffers are closed; everything by default. Without effect on a shared pool of a GPU. */
  readonly releaseThresholdBytes?: number | undefined;
  /** Whether other processes may import it; false by default. */
  readonly shared?: boolean | undefined;
  /** The name in error messages; "pool" by default. */
  readonly label?: string | undefined;
}

export interface PoolAllocateOptions {
  /**
   * The stream in whose order the memory is allocated and, where `close` names no other, freed. Work on this stream may use it at once.
   * By default the pool's own, on which there is no other work.
   */
  readonly stream?: Stream | undefined;
  /** The name in error messages; the pool's by default. */
  readonly label?: string | undefined;
}

export interface PooledImportOptions {
  /** "read-write" by default. With "read" this side refuses to write; the memory itself is writable for whoever imports the pool. */
  readonly access?: Access | undefined;
  readonly label?: string | undefined;
}

export interface PoolImportOptions {
  readonly label?: string | undefined;
}

/** A pool's descriptor and the file descriptor that goes with it, which the caller closes. */
export interface ExportedPool {
  readonly fd: OwnedFd;
  readonly descriptor: PoolDescriptor;
}

/** As drivers align allocations. */
const ALIGNMENT_BYTES = 512;

const forgotten = new FinalizationRegistry<{ readonly label: string; readonly core: PoolCore }>(({ label, core }) => {
  process.emitWarning(`Pool "${label}" was never closed; it is now`, "CudaIpcLeak");
  try {
    core.release();
  } catch (error) {
    process.emitWarning(`Pool "${label}" could not be closed: ${String(error)}`, "CudaIpcLeak");
  }
});

export class MemoryPool {
  readonly label: string;
  readonly maxBytes: number;
  readonly #core: PoolCore;
  #open = true;

  private constructor(core: PoolCore, label: string, maxBytes: number) {
    this.#core = core;
    this.label = label;
    this.maxBytes = maxBytes;
    forgotten.register(this, { label, core }, this);
  }

  /** @throws UNSUPPORTED where the device has no pools, or none that can be shared */
  static create(device: Device, options: MemoryPoolOptions): MemoryPool {
    const { maxBytes, releaseThresholdBytes = maxBytes, shared = false, label = "pool" } = options;
    checkInteger("maxBytes", maxBytes, 1);
    const { driver, ordinal } = device;
    const core = PoolCore.open(device, { id: randomUUID(), maxBytes }, () =>
      driver.createPool(ordinal, { maxBytes, releaseThresholdBytes, shared }),
    );
    return new MemoryPool(core, label, maxBytes);
  }

  /**
   * A pool of another process, on this process's own device, which need not be the one that it lies on. The file descriptor stays the
   * caller's and may be closed afterwards. Nothing can be allocated from it. One thread of a process imports a pool.
   * In the process that created the pool, and where it is imported already, this is one more handle on the same.
   * @throws INVALID_DESCRIPTOR, UNSUPPORTED, PEER_ACCESS_UNSUPPORTED
   */
  static import(
    device: Device,
    fd: OwnedFd,
    descriptor: PoolDescriptor,
    { label = "pool" }: PoolImportOptions = {},
  ): MemoryPool {
    const checked = checkPoolDescriptor(descriptor);
    const { driver, ordinal } = device;
    if (!device.isSameKindAs(checked.device)) {
      const message = `Cannot import pool "${label}" on ${device.name}: it is a pool of device ${checked.device.kind}`;
      throw new CudaIpcError("INVALID_DESCRIPTOR", message);
    }
    const facts = { id: checked.pool, maxBytes: checked.maxBytes };
    const core = PoolCore.open(device, facts, () => driver.importPool(ordinal, fd));
    return new MemoryPool(core, label, checked.maxBytes);
  }

  get device(): Device {
    return this.#core.device;
  }

  /** Names the pool to every process. */
  get id(): string {
    return this.#core.id;
  }

  /** Whether another process created it. */
  get imported(): boolean {
    return this.#core.imported;
  }

  get open(): boolean {
    return this.#open;
  }

  /**
   * Memory of the pool, its content undefined. Closing the buffer frees it in the order of the stream.
   * The allocation is work of the stream: `read`, `write`, `fill` and `exportPooled` of the buffer wait for it by themselves; before anything
   * else on another stream, `await buffer.ready()`.
   * @throws OUT_OF_MEMORY, UNSUPPORTED from an imported pool
   */
  allocate(byteLength: number, options: PoolAllocateOptions = {}): DeviceBuffer {
    this.#checkOpen();
    checkInteger("byteLength", byteLength, 0);
    const { stream = this.#core.stream, label = this.label } = options;
    if (stream.device !== this.device) {
      throw new TypeError(
        `Cannot allocate from "${this.label}" on ${this.device.name}: the stream is of another device`,
      );
    }
    const mapped = this.#core.allocate(roundUp(Math.max(1, byteLength), ALIGNMENT_BYTES), stream);
    return DeviceBuffer.over(mapped, { label, byteLength, access: "read-write" });
  }

  /** As `allocate`, a contiguous array, whose `close()` frees the memory. */
  allocateArray<D extends DType>(array: ArrayOptions<D>, options: PoolAllocateOptions = {}): DeviceArray<D> {
    return ownedArray(array, (byteLength) => this.allocate(byteLength, options));
  }

  /**
   * The buffer that `exportPooled` named, of this pool. Each import is closed by itself; imports of the same memory are one mapping.
   * The exporting process frees the memory after all imports were closed: an import that is used later reads what came after it.
   * In the process that exported it this is one more buffer on the same memory.
   * @throws INVALID_DESCRIPTOR; INVALID_HANDLE for memory of another pool, or that was freed, where the driver knows; IN_USE while a
   * stream has not got to the free of an earlier import
   */
  import(descriptor: PooledDescriptor, options: PooledImportOptions = {}): DeviceBuffer {
    this.#checkOpen();
    checkOneOf("access", options.access ?? "read-write", ["read", "read-write"]);
    const { pool, data, byteLength, allocationByteLength } = checkPooledDescriptor(descriptor);
    const attempt = `Cannot import memory of pool "${this.label}"`;
    if (pool !== this.id) {
      throw new CudaIpcError("INVALID_HANDLE", `${attempt}: it is memory of pool ${pool}, wanted ${this.id}`);
    }
    if (byteLength > allocationByteLength) {
      const found = `content of ${formatBytes(byteLength)} in memory of ${formatBytes(allocationByteLength)}`;
      throw new CudaIpcError("INVALID_DESCRIPTOR", `${attempt}: ${found}`);
    }
    const mapped = this.#core.import(Uint8Array.from(Buffer.from(data, "base64")), allocationByteLength);
    const { label = this.label, access = "read-write" } = options;
    return DeviceBuffer.over(mapped, { label, byteLength, access });
  }

  /** As `import`, as a contiguous array. @throws INVALID_DESCRIPTOR where the memory is too small for it */
  importArray<D extends DType>(
    descriptor: PooledDescriptor,
    array: ArrayOptions<D>,
    options: PooledImportOptions = {},
  ): DeviceArray<D> {
    return ownedArray(array, () => this.import(descriptor, options));
  }

  /** Of an imported pool: what this process alone did with it. */
  statistics(): PoolStatistics {
    this.#checkOpen();
    return this.device.driver.poolStatistics(this.#core.pool);
  }

  /** Gives back what is kept for later allocations, down to `keepBytes`. Without effect on a shared pool of a GPU. */
  trim(keepBytes = 0): void {
    this.#checkOpen();
    // WHY asked: what was freed in the order of a stream can go back once the stream is seen to have got there.
    isPast(this.#core.stream);
    this.device.driver.trimPool(this.#core.pool, keepBytes);
  }

  /** What another process imports the pool by. @throws UNSUPPORTED for a pool that was not created to be shared, or was imported */
  export(): ExportedPool {
    this.#checkOpen();
    const fd = this.#core.exportFd();
    const device = this.device.reference;
    const { id, maxBytes } = this;
    return { fd, descriptor: { version: POOL_DESCRIPTOR_VERSION, kind: "pool", device, pool: id, maxBytes } };
  }

  /**
   * Ends the pool; its memory goes back once no process has imports of it. Views that are still reachable keep it until they are collected.
   * @throws IN_USE while buffers of it are open; it stays open then
   */
  close(): void {
    if (!this.#open) return;
    if (this.#core.lastHandleInUse) {
      const message = `Cannot close pool "${this.label}": ${this.#core.openBuffers} buffers of it are open`;
      throw new CudaIpcError("IN_USE", message);
    }
    this.#open = false;
    forgotten.unregister(this);
    this.#core.release();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #checkOpen(): void {
    if (!this.#open) throw new CudaIpcError("CLOSED", `Cannot use pool "${this.label}": it was closed`);
  }
}

function ownedArray<D extends DType>(
  { dtype, shape }: ArrayOptions<D>,
  open: (byteLength: number) => DeviceBuffer,
): DeviceArray<D> {
  const layout = { ...contiguousLayout(dtype, shape), dtype };
  return acquireIn((scope) => {
    const buffer = scope.own(open(arrayByteLength(dtype, shape)), (it) => it.close());
    return new DeviceArray(buffer, layout, () => buffer.close());
  });
}
