/**
 * A memory pool: allocates and frees in the order of streams, far faster than separate allocations.
 * Sharing it takes one file descriptor for the pool and a few bytes per buffer. pool-core.ts holds
 * its state.
 */
import { randomUUID } from "node:crypto";
import type { DType } from "../../array/dtype.js";
import { arrayByteLength, contiguousLayout } from "../../array/layout.js";
import { checkInteger, formatBytes, roundUp } from "../../base/bytes.js";
import type { WaitOptions } from "../../base/deadline.js";
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn } from "../../base/scope.js";
import { checkWait } from "../../base/wait-checks.js";
import type { PoolStatistics } from "../../driver/pool-calls.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import {
  checkPoolDescriptor,
  checkPooledDescriptor,
  POOL_DESCRIPTOR_VERSION,
  type PoolDescriptor,
  type PooledDescriptor,
} from "../../wire/pool-descriptor.js";
import { type ArrayOptions, DeviceArray } from "../arrays/device-array.js";
import { checkDevice } from "../check-arguments.js";
import type { Device } from "../device.js";
import { checkNewArray } from "../option-checks.js";
import { DeviceBuffer } from "./device-buffer.js";
import { PoolCore } from "./pool-core.js";
import { isPast, PoolMemory } from "./pool-memory.js";
import {
  checkAllocate,
  checkCreate,
  checkImportPool,
  checkImportPooled,
  type MemoryPoolOptions,
  type PoolAllocateOptions,
  type PooledImportOptions,
  type PoolImportOptions,
} from "./pool-options.js";

/** A pool's descriptor and file descriptor. The caller closes the file descriptor. */
export interface ExportedPool {
  readonly fd: OwnedFd;
  readonly descriptor: PoolDescriptor;
}

/** Drivers align allocations to this. */
const ALIGNMENT_BYTES = 512;

const forgotten = new FinalizationRegistry<{ readonly label: string; readonly core: PoolCore }>(
  ({ label, core }) => {
    process.emitWarning(`Pool "${label}" was never closed; it is now`, "CudaIpcLeak");
    try {
      core.release();
    } catch (error) {
      process.emitWarning(`Pool "${label}" could not be closed: ${String(error)}`, "CudaIpcLeak");
    }
  },
);

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

  /** Creates a pool. @throws UNSUPPORTED if the device has no pools, or none that can be shared */
  static create(device: Device, options: MemoryPoolOptions): MemoryPool {
    checkDevice(device);
    checkCreate(options);
    const { maxBytes, releaseThresholdBytes = maxBytes, shared = false, label = "pool" } = options;
    const { driver, ordinal } = device;
    const core = PoolCore.open(device, { id: randomUUID(), maxBytes, shared }, () =>
      driver.createPool(ordinal, { maxBytes, releaseThresholdBytes, shared }),
    );
    return new MemoryPool(core, label, maxBytes);
  }

  /**
   * Imports a pool of another process. You cannot allocate from it. Import a pool in only one
   * thread of a process. If this process created or already imported the pool, the result is
   * another handle on the same pool.
   * @param device may differ from the device that holds the pool
   * @param fd still owned by the caller, who may close it after the call
   * @throws INVALID_DESCRIPTOR, UNSUPPORTED, PEER_ACCESS_UNSUPPORTED
   */
  static import(
    device: Device,
    fd: OwnedFd,
    descriptor: PoolDescriptor,
    options: PoolImportOptions = {},
  ): MemoryPool {
    checkDevice(device);
    checkImportPool(options);
    const { label = "pool" } = options;
    const checked = checkPoolDescriptor(descriptor);
    const { driver, ordinal } = device;
    if (!device.isSameKindAs(checked.device)) {
      const found = `it is a pool of device ${checked.device.kind}`;
      throw new CudaIpcError(
        "INVALID_DESCRIPTOR",
        `Cannot import pool "${label}" on ${device.name}: ${found}`,
      );
    }
    const facts = { id: checked.pool, maxBytes: checked.maxBytes, shared: true };
    const core = PoolCore.open(device, facts, () => driver.importPool(ordinal, fd));
    return new MemoryPool(core, label, checked.maxBytes);
  }

  get device(): Device {
    return this.#core.device;
  }

  /** The same in every process. */
  get id(): string {
    return this.#core.id;
  }

  /** Whether another process created the pool. */
  get imported(): boolean {
    return this.#core.imported;
  }

  /** Whether other processes can import the pool. */
  get shared(): boolean {
    return this.#core.shared;
  }

  get open(): boolean {
    return this.#open;
  }

  /**
   * Allocates a buffer with undefined content. Closing it frees the memory in the order of the
   * stream.
   *
   * The allocation itself is work of the stream. The buffer's `read`, `write` and `fill` wait for
   * it. Before other work on another stream, `await buffer.ready()`.
   * @throws OUT_OF_MEMORY, UNSUPPORTED from an imported pool
   */
  allocate(byteLength: number, options: PoolAllocateOptions = {}): DeviceBuffer {
    this.#checkOpen();
    checkInteger("byteLength", byteLength, 0);
    checkAllocate(options);
    const { stream = this.#core.stream, label = this.label } = options;
    if (stream.device !== this.device) {
      throw new TypeError(
        `Cannot allocate from "${this.label}" on ${this.device.name}: the stream is of another ` +
          "device",
      );
    }
    const mapped = this.#core.allocate(roundUp(Math.max(1, byteLength), ALIGNMENT_BYTES), stream);
    return DeviceBuffer.over(mapped, { label, byteLength, access: "read-write" });
  }

  /** As `allocate`, for a contiguous array. Its `close()` frees the memory. */
  allocateArray<D extends DType>(
    array: ArrayOptions<D>,
    options: PoolAllocateOptions = {},
  ): DeviceArray<D> {
    return ownedArray(array, (byteLength) => this.allocate(byteLength, options));
  }

  /**
   * Opens a buffer of this pool by the result of `exportBuffer`. Close each import; imports of the
   * same memory share one mapping. In the exporting process the result is another buffer on the
   * same memory.
   *
   * The exporting process must free the memory only after all imports were closed. An import that
   * is used later reads the data of a later allocation.
   * @throws INVALID_DESCRIPTOR; INVALID_HANDLE for memory of another pool, or for freed memory if
   * the driver detects it; IN_USE while a stream has not reached the free of an earlier import
   */
  import(descriptor: PooledDescriptor, options: PooledImportOptions = {}): DeviceBuffer {
    this.#checkOpen();
    checkImportPooled(options);
    const { pool, data, byteLength, allocationByteLength } = checkPooledDescriptor(descriptor);
    const attempt = `Cannot import memory of pool "${this.label}"`;
    if (pool !== this.id) {
      throw new CudaIpcError(
        "INVALID_HANDLE",
        `${attempt}: it is memory of pool ${pool}, wanted ${this.id}`,
      );
    }
    if (byteLength > allocationByteLength) {
      const content = formatBytes(byteLength);
      const found = `content of ${content} in memory of ${formatBytes(allocationByteLength)}`;
      throw new CudaIpcError("INVALID_DESCRIPTOR", `${attempt}: ${found}`);
    }
    const mapped = this.#core.import(
      Uint8Array.from(Buffer.from(data, "base64")),
      allocationByteLength,
    );
    const { label = this.label, access = "read-write" } = options;
    return DeviceBuffer.over(mapped, { label, byteLength, access });
  }

  /** As `import`, for a contiguous array. @throws INVALID_DESCRIPTOR if the memory is too small */
  importArray<D extends DType>(
    descriptor: PooledDescriptor,
    array: ArrayOptions<D>,
    options: PooledImportOptions = {},
  ): DeviceArray<D> {
    return ownedArray(array, () => this.import(descriptor, options));
  }

  /**
   * Describes a buffer of this pool to other processes, which open it with `import`. Resolves once
   * they may use it. Do not free the memory before they have closed their imports.
   * @throws UNSUPPORTED for memory of another mechanism, or if the pool is not shared; TIMEOUT
   */
  async exportBuffer(buffer: DeviceBuffer, options: WaitOptions = {}): Promise<PooledDescriptor> {
    checkWait(options);
    const { label, byteLength } = buffer;
    const pooled = PoolMemory.of(buffer.memory, label);
    if (pooled.poolId !== this.id)
      throw new TypeError(`Cannot export "${label}" from "${this.label}": it is of another pool`);
    await buffer.ready(options);
    // Asked again: the buffer may have been closed meanwhile, and its memory freed.
    return PoolMemory.of(buffer.memory, label).describePooled(byteLength);
  }

  /** Usage of the pool. For an imported pool it counts only what this process did. */
  statistics(): PoolStatistics {
    this.#checkOpen();
    return this.device.driver.poolStatistics(this.#core.pool);
  }

  /**
   * Frees unused memory of the pool down to `keepBytes`. Has no effect on a shared pool on a GPU.
   */
  trim(keepBytes = 0): void {
    this.#checkOpen();
    // WHY: memory freed in the order of the stream can be trimmed only after the stream was seen to
    // reach the free.
    isPast(this.#core.stream);
    this.device.driver.trimPool(this.#core.pool, keepBytes);
  }

  /**
   * Exports the pool to other processes.
   * @throws UNSUPPORTED for a pool that was imported, or created without `shared: true`
   */
  export(): ExportedPool {
    this.#checkOpen();
    const fd = this.#core.exportFd();
    const device = this.device.reference;
    const { id, maxBytes } = this;
    return {
      fd,
      descriptor: { version: POOL_DESCRIPTOR_VERSION, kind: "pool", device, pool: id, maxBytes },
    };
  }

  /**
   * Closes the pool. Its memory is freed once no process has imports of it. Reachable views keep
   * the memory until they are garbage-collected.
   * @throws IN_USE while buffers of the pool are open; the pool then stays open
   */
  close(): void {
    if (!this.#open) return;
    if (this.#core.lastHandleInUse) {
      const found = `${this.#core.openBuffers} buffers of it are open`;
      throw new CudaIpcError("IN_USE", `Cannot close pool "${this.label}": ${found}`);
    }
    this.#open = false;
    forgotten.unregister(this);
    this.#core.release();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #checkOpen(): void {
    if (!this.#open)
      throw new CudaIpcError("CLOSED", `Cannot use pool "${this.label}": it was closed`);
  }
}

function ownedArray<D extends DType>(
  array: ArrayOptions<D>,
  open: (byteLength: number) => DeviceBuffer,
): DeviceArray<D> {
  checkNewArray(array);
  const { dtype, shape } = array;
  const layout = { ...contiguousLayout(dtype, shape), dtype };
  return acquireIn((scope) => {
    const buffer = scope.own(open(arrayByteLength(dtype, shape)), (it) => it.close());
    return new DeviceArray(buffer, layout, () => buffer.close());
  });
}
