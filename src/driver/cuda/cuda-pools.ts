/**
 * Memory pools of the driver: allocation in stream order, and sharing by a descriptor for the pool and 64 bytes for each allocation.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MALLOC__ASYNC.html
 *
 * A pair of allocate and free takes the driver well under a microsecond, so the way there is kept short: what the driver writes to is reused.
 */
import { checkInteger } from "../../base/bytes.js";
import type { ErrorCode } from "../../base/error-codes.js";
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn } from "../../base/scope.js";
import { cuDeviceAttribute, cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { deviceLocation, encodeAccessDescs, encodeMemPoolProps } from "../../ffi/cuda-structs.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import { OwnedFd } from "../../os/owned-fd.js";
import { formatAddress } from "../address-table.js";
import { IPC_HANDLE_BYTES } from "../event-calls.js";
import type { DevicePointer, DriverStream } from "../gpu-driver.js";
import type { DriverPool, PoolCalls, PoolOptions, PoolStatistics } from "../pool-calls.js";
import { readAttribute } from "./cuda-device.js";
import type { CudaParts } from "./cuda-driver.js";
import { CudaPool, PooledRange } from "./cuda-pool.js";
import { errorCodeOf } from "./cuda-status.js";

const POSIX_FD = cuValue.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

export function createCudaPools(parts: CudaParts): PoolCalls {
  const pools = new CudaPools(parts);
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

class CudaPools {
  readonly #parts: CudaParts;
  readonly #out = new BigUint64Array(1);

  constructor(parts: CudaParts) {
    this.#parts = parts;
  }

  create(ordinal: number, { maxBytes, releaseThresholdBytes, shared }: PoolOptions): DriverPool {
    const { session } = this.#parts;
    const cuda = session.enter(ordinal);
    checkInteger("Pool: maxBytes", maxBytes, 1);
    checkInteger("Pool: releaseThresholdBytes", releaseThresholdBytes, 0);
    this.#checkSupport(ordinal, shared);
    const handleType = shared ? POSIX_FD : cuValue.CU_MEM_HANDLE_TYPE_NONE;
    const properties = encodeMemPoolProps(deviceLocation(session.device(ordinal)), handleType, maxBytes);
    const attempt = `create a pool of ${maxBytes} bytes on cuda:${ordinal}`;
    this.#must(cuda.cuMemPoolCreate(this.#out, properties), "cuMemPoolCreate", attempt);
    return acquireIn((scope) => {
      const created = new CudaPool(ordinal, this.#out[0] as bigint, { imported: false, shared });
      const pool = scope.own(created, (it) => this.destroy(it));
      const value = BigUint64Array.of(BigInt(releaseThresholdBytes));
      const attribute = cuValue.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
      this.#must(cuda.cuMemPoolSetAttribute(pool.handle, attribute, value), "cuMemPoolSetAttribute", attempt);
      return pool;
    });
  }

  destroy(pool: DriverPool): void {
    const own = this.#usable(pool, "destroy");
    if (own.live > 0) {
      const found = `${own.live} of its allocations are not freed`;
      throw new CudaIpcError("IN_USE", `Cannot destroy a pool of cuda:${own.ordinal}: ${found}`);
    }
    const { session } = this.#parts;
    const cuda = session.enterToRelease(own.ordinal);
    own.destroyed = true;
    const status = cuda.cuMemPoolDestroy(own.handle);
    session.checkReleased(status, "cuMemPoolDestroy", `destroy a pool of cuda:${own.ordinal}`);
  }

  /** WHY `adopt`: the driver leaves close-on-exec unset on the descriptor of a pool (580). */
  export(pool: DriverPool): OwnedFd {
    const own = this.#usable(pool, "export");
    checkShared(own, "a pool");
    const cuda = this.#parts.session.enter(own.ordinal);
    const out = new Int32Array(1);
    const status = cuda.cuMemPoolExportToShareableHandle(out, own.handle, POSIX_FD, 0n);
    this.#must(status, "cuMemPoolExportToShareableHandle", `export a pool of cuda:${own.ordinal}`);
    own.exported = true;
    return OwnedFd.adopt(out[0] as number);
  }

  import(ordinal: number, fd: OwnedFd): DriverPool {
    const cuda = this.#parts.session.enter(ordinal);
    this.#checkSupport(ordinal, true);
    const attempt = `import a pool on cuda:${ordinal}`;
    // SAFETY: the number of the descriptor is the argument itself. The driver takes no ownership of it.
    const status = cuda.cuMemPoolImportFromShareableHandle(this.#out, BigInt(fd.number), POSIX_FD, 0n);
    this.#must(status, "cuMemPoolImportFromShareableHandle", `${attempt} from this descriptor`, "INVALID_DESCRIPTOR");
    return acquireIn((scope) => {
      const imported = new CudaPool(ordinal, this.#out[0] as bigint, { imported: true, shared: false });
      const pool = scope.own(imported, (it) => this.destroy(it));
      this.#allow(cuda, pool, attempt);
      return pool;
    });
  }

  allocate(pool: DriverPool, byteLength: number, stream: DriverStream): DevicePointer {
    const own = this.#usable(pool, "allocate from");
    if (own.imported) {
      throw new CudaIpcError("UNSUPPORTED", `Cannot allocate from a pool of cuda:${own.ordinal}: it was imported`);
    }
    checkInteger("Allocation: byteLength", byteLength, 1);
    const status = this.#parts.streams.inContextOf(stream, (cuda, handle) =>
      cuda.cuMemAllocFromPoolAsync(this.#out, byteLength, own.handle, handle),
    );
    if (status !== cuResult.CUDA_SUCCESS) {
      const attempt = `allocate ${byteLength} bytes from a pool of cuda:${own.ordinal}`;
      throw this.#parts.session.failure(status, "cuMemAllocFromPoolAsync", attempt);
    }
    const start = this.#out[0] as bigint;
    this.#parts.mappings.addRange(new PooledRange(start, byteLength, own));
    own.live += 1;
    return start;
  }

  /** WHY the range ends here and not when the stream gets there: what is enqueued from here on would come too late. */
  free(pointer: DevicePointer, stream: DriverStream): void {
    this.#parts.streams.willFree(stream);
    const pool = this.#pool(pointer, "free");
    this.#forget(pointer, pool);
    const status = this.#parts.streams.inContextOf(stream, (cuda, handle) => cuda.cuMemFreeAsync(pointer, handle));
    const attempt = `free memory of a pool of cuda:${pool.ordinal}`;
    this.#parts.session.checkReleased(status, "cuMemFreeAsync", attempt);
  }

  exportPointer(pointer: DevicePointer): Uint8Array {
    const { session } = this.#parts;
    session.cuda;
    const pool = this.#pool(pointer, "export");
    checkShared(pool, "memory of a pool");
    // WHY: the driver (580) refuses the memory of a pool that was not exported itself before.
    if (!pool.exported) this.export(pool).close();
    const data = new Uint8Array(IPC_HANDLE_BYTES);
    const status = session.enter(pool.ordinal).cuMemPoolExportPointer(data, pointer);
    this.#must(status, "cuMemPoolExportPointer", `export memory of a pool of cuda:${pool.ordinal}`);
    return data;
  }

  importPointer(pool: DriverPool, data: Uint8Array): { readonly pointer: DevicePointer; readonly byteLength: number } {
    const own = this.#usable(pool, "import memory of");
    const attempt = `import memory of a pool on cuda:${own.ordinal}`;
    if (!own.imported) throw new CudaIpcError("OWN_HANDLE", `Cannot ${attempt}: the pool was created here`);
    if (data.byteLength !== IPC_HANDLE_BYTES) {
      const found = `found ${data.byteLength} bytes, wanted ${IPC_HANDLE_BYTES}`;
      throw new CudaIpcError("INVALID_HANDLE", `Cannot ${attempt}: ${found}`);
    }
    const cuda = this.#parts.session.enter(own.ordinal);
    // SAFETY: a copy, since nothing says that the driver leaves the bytes as they are.
    const status = cuda.cuMemPoolImportPointer(this.#out, own.handle, Uint8Array.from(data));
    if (status === cuResult.CUDA_ERROR_ALREADY_MAPPED) throw inUse(attempt);
    this.#must(status, "cuMemPoolImportPointer", attempt, "INVALID_HANDLE");
    const pointer = this.#out[0] as bigint;
    // WHY not freed again: the driver gives the same address for the same bytes, and the first free ends both (nvbug 5570902).
    if (this.#parts.mappings.rangeAt(pointer) instanceof PooledRange) throw inUse(attempt);
    return acquireIn((scope) => {
      scope.defer(() => this.#must(cuda.cuMemFree(pointer), "cuMemFree", "free imported memory of a pool"));
      const byteLength = this.#extent(cuda, pointer, attempt);
      this.#parts.mappings.addRange(new PooledRange(pointer, byteLength, own));
      own.live += 1;
      own.importedBytes.add(byteLength);
      return { pointer, byteLength };
    });
  }

  statistics(pool: DriverPool): PoolStatistics {
    const own = this.#usable(pool, "inspect");
    // WHY counted here: the driver (580) tells nothing of imported pools.
    if (own.imported) return own.importedBytes.statistics();
    const cuda = this.#parts.session.enter(own.ordinal);
    const read = (attribute: number): number => {
      const status = cuda.cuMemPoolGetAttribute(own.handle, attribute, this.#out);
      this.#must(status, "cuMemPoolGetAttribute", `inspect a pool of cuda:${own.ordinal}`);
      return Number(this.#out[0]);
    };
    return {
      reservedBytes: read(cuValue.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
      reservedHighBytes: read(cuValue.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH),
      usedBytes: read(cuValue.CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
      usedHighBytes: read(cuValue.CU_MEMPOOL_ATTR_USED_MEM_HIGH),
    };
  }

  trim(pool: DriverPool, keepBytes: number): void {
    const own = this.#usable(pool, "trim");
    checkInteger("Pool: keepBytes", keepBytes, 0);
    if (own.imported) return;
    const cuda = this.#parts.session.enter(own.ordinal);
    this.#must(cuda.cuMemPoolTrimTo(own.handle, keepBytes), "cuMemPoolTrimTo", `trim a pool of cuda:${own.ordinal}`);
  }

  /** An imported pool is at first for the device alone on which it lies; the device that imports it may be another. */
  #allow(cuda: Libcuda, pool: CudaPool, attempt: string): void {
    const location = deviceLocation(this.#parts.session.device(pool.ordinal));
    const flags = cuValue.CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    const found = new Int32Array(1);
    const asked = cuda.cuMemPoolGetAccess(found, pool.handle, Int32Array.of(location.type, location.id));
    if (asked === cuResult.CUDA_SUCCESS && found[0] === flags) return;
    const status = cuda.cuMemPoolSetAccess(pool.handle, encodeAccessDescs([location], flags), 1);
    this.#must(status, "cuMemPoolSetAccess", attempt);
  }

  /** How much memory lies at an address: the driver knows, and what travels beside the bytes need not be true. */
  #extent(cuda: Libcuda, pointer: DevicePointer, attempt: string): number {
    const size = new BigUint64Array(1);
    this.#must(cuda.cuMemGetAddressRange(this.#out, size, pointer), "cuMemGetAddressRange", attempt);
    return Number((this.#out[0] as bigint) + (size[0] as bigint) - pointer);
  }

  #forget(pointer: DevicePointer, pool: CudaPool): void {
    const range = this.#parts.mappings.removeRange(pointer);
    if (pool.imported && range !== undefined) pool.importedBytes.remove(range.byteLength);
    pool.live -= 1;
  }

  #checkSupport(ordinal: number, shared: boolean): void {
    const { session } = this.#parts;
    if (readAttribute(session, ordinal, cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED) !== 1) {
      const found = "the driver says that the device has none (MEMORY_POOLS_SUPPORTED)";
      throw new CudaIpcError("UNSUPPORTED", `Cannot use memory pools on cuda:${ordinal}: ${found}`);
    }
    if (!shared) return;
    const attribute = cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
    const types = readAttribute(session, ordinal, attribute) ?? 0;
    if ((types & POSIX_FD) === 0) {
      const found = `the device cannot export them as descriptors (MEMPOOL_SUPPORTED_HANDLE_TYPES is ${types})`;
      throw new CudaIpcError("UNSUPPORTED", `Cannot share memory pools on cuda:${ordinal}: ${found}`);
    }
  }

  /** @param code instead of CUDA_ERROR and UNSUPPORTED, where the call knows whom to blame */
  #must(status: number, call: string, attempt: string, code?: ErrorCode): void {
    if (status === cuResult.CUDA_SUCCESS) return;
    const usual = errorCodeOf(status);
    const blamed = usual === "CUDA_ERROR" || usual === "UNSUPPORTED" ? code : undefined;
    throw this.#parts.session.failure(status, call, attempt, blamed);
  }

  #pool(pointer: DevicePointer, verb: string): CudaPool {
    const range = this.#parts.mappings.rangeAt(pointer);
    if (range instanceof PooledRange) return range.pool;
    throw new RangeError(`Cannot ${verb} ${formatAddress(pointer)}: no memory of a pool starts there`);
  }

  #usable(pool: DriverPool, verb: string): CudaPool {
    this.#parts.session.cuda;
    if (!(pool instanceof CudaPool)) throw new TypeError(`Cannot ${verb} a pool of another driver`);
    if (!pool.destroyed) return pool;
    throw new CudaIpcError("CLOSED", `Cannot ${verb} a pool of cuda:${pool.ordinal}: it was destroyed`);
  }
}

function checkShared(pool: CudaPool, what: string): void {
  if (pool.shared) return;
  const found = pool.imported ? "it was imported" : "the pool was not created to be shared";
  throw new CudaIpcError("UNSUPPORTED", `Cannot export ${what} of cuda:${pool.ordinal}: ${found}`);
}

function inUse(attempt: string): CudaIpcError {
  return new CudaIpcError("IN_USE", `Cannot ${attempt}: it is imported already`);
}
