/**
 * Memory pools of the CUDA driver: allocation in stream order. A pool is shared by a descriptor,
 * and each of its allocations by 64 bytes.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MALLOC__ASYNC.html
 *
 * Allocate and free together take the driver well under a microsecond. The path to them is short,
 * and reuses the memory that the driver writes to.
 */
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn } from "../../base/scope.js";
import { cuDeviceAttribute, cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { deviceLocation, encodeAccessDescs, encodeMemPoolProps } from "../../ffi/cuda-structs.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import { OwnedFd } from "../../os/owned-fd.js";
import { formatAddress } from "../common/address-table.js";
import { IPC_HANDLE_BYTES } from "../event-calls.js";
import type { DevicePointer } from "../memory-calls.js";
import type { DriverPool, PoolCalls } from "../pool-calls.js";
import type { CudaAddresses } from "./cuda-addresses.js";
import { readAttribute } from "./cuda-device.js";
import { CudaPool, PooledRange } from "./cuda-pool.js";
import type { CudaSession } from "./cuda-session.js";
import type { CudaStreams } from "./cuda-streams.js";

const POSIX_FD = cuValue.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

export function cudaPools(
  session: CudaSession,
  addresses: CudaAddresses,
  streams: CudaStreams,
): PoolCalls {
  return { ...poolCalls(session), ...pooledMemoryCalls(session, addresses, streams) };
}

type PooledMemoryCalls = Pick<
  PoolCalls,
  "allocateFromPool" | "freeToPool" | "exportPoolPointer" | "importPoolPointer"
>;

/** The calls on pools themselves. */
function poolCalls(session: CudaSession): Omit<PoolCalls, keyof PooledMemoryCalls> {
  const out = new BigUint64Array(1);
  const destroy = (pool: DriverPool) => destroyPool(session, pool);
  return {
    createPool(ordinal, { maxBytes, releaseThresholdBytes, shared }) {
      const cuda = session.enter(ordinal);
      checkInteger("Pool: maxBytes", maxBytes, 1);
      checkInteger("Pool: releaseThresholdBytes", releaseThresholdBytes, 0);
      checkSupport(session, ordinal, shared);
      const handleType = shared ? POSIX_FD : cuValue.CU_MEM_HANDLE_TYPE_NONE;
      const location = deviceLocation(session.device(ordinal));
      const properties = encodeMemPoolProps(location, handleType, maxBytes);
      const attempt = `create a pool of ${maxBytes} bytes on cuda:${ordinal}`;
      session.check(cuda.cuMemPoolCreate(out, properties), "cuMemPoolCreate", attempt);
      return acquireIn((scope) => {
        const created = new CudaPool(ordinal, out[0] as bigint, { imported: false, shared });
        const pool = scope.own(created, destroy);
        const value = BigUint64Array.of(BigInt(releaseThresholdBytes));
        const attribute = cuValue.CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        const status = cuda.cuMemPoolSetAttribute(pool.handle, attribute, value);
        session.check(status, "cuMemPoolSetAttribute", attempt);
        return pool;
      });
    },

    destroyPool: destroy,
    exportPool: (pool) => exportPool(session, pool),

    importPool(ordinal, fd) {
      const cuda = session.enter(ordinal);
      checkSupport(session, ordinal, true);
      const attempt = `import a pool on cuda:${ordinal}`;
      // SAFETY: the descriptor's number is the argument itself. The driver does not take ownership.
      const asPointer = BigInt(fd.number);
      const status = cuda.cuMemPoolImportFromShareableHandle(out, asPointer, POSIX_FD, 0n);
      session.check(
        status,
        "cuMemPoolImportFromShareableHandle",
        `${attempt} from this descriptor`,
        "INVALID_DESCRIPTOR",
      );
      return acquireIn((scope) => {
        const kind = { imported: true, shared: false };
        const pool = scope.own(new CudaPool(ordinal, out[0] as bigint, kind), destroy);
        allow(session, cuda, pool, attempt);
        return pool;
      });
    },

    poolStatistics(pool) {
      const own = usable(session, pool, "inspect");
      if (own.imported) return own.importedBytes.statistics();
      const cuda = session.enter(own.ordinal);
      const read = (attribute: number): number => {
        const status = cuda.cuMemPoolGetAttribute(own.handle, attribute, out);
        session.check(status, "cuMemPoolGetAttribute", `inspect a pool of cuda:${own.ordinal}`);
        return Number(out[0]);
      };
      return {
        reservedBytes: read(cuValue.CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT),
        reservedHighBytes: read(cuValue.CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH),
        usedBytes: read(cuValue.CU_MEMPOOL_ATTR_USED_MEM_CURRENT),
        usedHighBytes: read(cuValue.CU_MEMPOOL_ATTR_USED_MEM_HIGH),
      };
    },

    trimPool(pool, keepBytes) {
      const own = usable(session, pool, "trim");
      checkInteger("Pool: keepBytes", keepBytes, 0);
      if (own.imported) return;
      const cuda = session.enter(own.ordinal);
      const status = cuda.cuMemPoolTrimTo(own.handle, keepBytes);
      session.check(status, "cuMemPoolTrimTo", `trim a pool of cuda:${own.ordinal}`);
    },
  };
}

/** The calls on memory of a pool. */
function pooledMemoryCalls(
  session: CudaSession,
  addresses: CudaAddresses,
  streams: CudaStreams,
): PooledMemoryCalls {
  const { memory: ranges } = addresses;
  const out = new BigUint64Array(1);
  return {
    allocateFromPool(pool, byteLength, stream) {
      const own = usable(session, pool, "allocate from");
      if (own.imported) {
        throw new CudaIpcError(
          "UNSUPPORTED",
          `Cannot allocate from a pool of cuda:${own.ordinal}: it was imported`,
        );
      }
      checkInteger("Allocation: byteLength", byteLength, 1);
      const status = streams.inContextOf(stream, (cuda, handle) =>
        cuda.cuMemAllocFromPoolAsync(out, byteLength, own.handle, handle),
      );
      if (status !== cuResult.CUDA_SUCCESS) {
        const attempt = `allocate ${byteLength} bytes from a pool of cuda:${own.ordinal}`;
        throw session.failure(status, "cuMemAllocFromPoolAsync", attempt);
      }
      const start = out[0] as bigint;
      ranges.add(new PooledRange(start, byteLength, own));
      own.live += 1;
      return start;
    },

    /** The range ends at once, because work enqueued from here on would come after the free. */
    freeToPool(pointer, stream) {
      streams.willFree(stream);
      const pool = poolOf(addresses, pointer, "free");
      const range = ranges.remove(pointer);
      if (pool.imported && range !== undefined) pool.importedBytes.remove(range.byteLength);
      pool.live -= 1;
      const status = streams.inContextOf(stream, (cuda, handle) =>
        cuda.cuMemFreeAsync(pointer, handle),
      );
      const attempt = `free memory of a pool of cuda:${pool.ordinal}`;
      session.checkReleased(status, "cuMemFreeAsync", attempt);
    },

    exportPoolPointer(pointer) {
      session.checkOpen();
      const pool = poolOf(addresses, pointer, "export");
      checkShared(pool, "memory of a pool");
      // WHY: driver 580 refuses to export memory before its pool was exported once.
      if (!pool.exported) exportPool(session, pool).close();
      const data = new Uint8Array(IPC_HANDLE_BYTES);
      const status = session.enter(pool.ordinal).cuMemPoolExportPointer(data, pointer);
      const attempt = `export memory of a pool of cuda:${pool.ordinal}`;
      session.check(status, "cuMemPoolExportPointer", attempt);
      return data;
    },

    importPoolPointer(pool, data) {
      const own = usable(session, pool, "import memory of");
      const attempt = `import memory of a pool on cuda:${own.ordinal}`;
      if (!own.imported)
        throw new CudaIpcError("OWN_HANDLE", `Cannot ${attempt}: the pool was created here`);
      if (data.byteLength !== IPC_HANDLE_BYTES) {
        const found = `found ${data.byteLength} bytes, wanted ${IPC_HANDLE_BYTES}`;
        throw new CudaIpcError("INVALID_HANDLE", `Cannot ${attempt}: ${found}`);
      }
      const cuda = session.enter(own.ordinal);
      // SAFETY: a copy, because nothing promises that the driver leaves the bytes unchanged.
      const status = cuda.cuMemPoolImportPointer(out, own.handle, Uint8Array.from(data));
      if (status === cuResult.CUDA_ERROR_ALREADY_MAPPED) throw inUse(attempt);
      session.check(status, "cuMemPoolImportPointer", attempt, "INVALID_HANDLE");
      const pointer = out[0] as bigint;
      // WHY not freed again: the driver gives the same address for the same bytes, and the first
      // free ends both (nvbug 5570902).
      if (ranges.at(pointer) instanceof PooledRange) throw inUse(attempt);
      return acquireIn((scope) => {
        const undo = "free imported memory of a pool";
        scope.defer(() => session.check(cuda.cuMemFree(pointer), "cuMemFree", undo));
        const byteLength = extentAt(session, cuda, pointer, attempt);
        ranges.add(new PooledRange(pointer, byteLength, own));
        own.live += 1;
        own.importedBytes.add(byteLength);
        return { pointer, byteLength };
      });
    },
  };
}

function usable(session: CudaSession, pool: DriverPool, verb: string): CudaPool {
  session.checkOpen();
  if (!(pool instanceof CudaPool)) throw new TypeError(`Cannot ${verb} a pool of another driver`);
  if (!pool.destroyed) return pool;
  throw new CudaIpcError(
    "CLOSED",
    `Cannot ${verb} a pool of cuda:${pool.ordinal}: it was destroyed`,
  );
}

function poolOf(addresses: CudaAddresses, pointer: DevicePointer, verb: string): CudaPool {
  const range = addresses.memory.at(pointer);
  if (range instanceof PooledRange) return range.pool;
  const found = "no memory of a pool starts there";
  throw new RangeError(`Cannot ${verb} ${formatAddress(pointer)}: ${found}`);
}

function destroyPool(session: CudaSession, pool: DriverPool): void {
  const own = usable(session, pool, "destroy");
  if (own.live > 0) {
    const found = `${own.live} of its allocations are not freed`;
    throw new CudaIpcError("IN_USE", `Cannot destroy a pool of cuda:${own.ordinal}: ${found}`);
  }
  const cuda = session.enterToRelease(own.ordinal);
  own.destroyed = true;
  const status = cuda.cuMemPoolDestroy(own.handle);
  session.checkReleased(status, "cuMemPoolDestroy", `destroy a pool of cuda:${own.ordinal}`);
}

/** WHY `adopt`: driver 580 leaves close-on-exec unset on the descriptor of a pool. */
function exportPool(session: CudaSession, pool: DriverPool): OwnedFd {
  const own = usable(session, pool, "export");
  checkShared(own, "a pool");
  const cuda = session.enter(own.ordinal);
  const fd = new Int32Array(1);
  const status = cuda.cuMemPoolExportToShareableHandle(fd, own.handle, POSIX_FD, 0n);
  const attempt = `export a pool of cuda:${own.ordinal}`;
  session.check(status, "cuMemPoolExportToShareableHandle", attempt);
  own.exported = true;
  return OwnedFd.adopt(fd[0] as number);
}

/** Gives the device access, which may be another one than the pool lies on. */
function allow(session: CudaSession, cuda: Libcuda, pool: CudaPool, attempt: string): void {
  const location = deviceLocation(session.device(pool.ordinal));
  const flags = cuValue.CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  const found = new Int32Array(1);
  const where = Int32Array.of(location.type, location.id);
  const asked = cuda.cuMemPoolGetAccess(found, pool.handle, where);
  if (asked === cuResult.CUDA_SUCCESS && found[0] === flags) return;
  const status = cuda.cuMemPoolSetAccess(pool.handle, encodeAccessDescs([location], flags), 1);
  session.check(status, "cuMemPoolSetAccess", attempt);
}

/** Asks the driver how much memory lies at an address. A size from the exporter may be wrong. */
function extentAt(
  session: CudaSession,
  cuda: Libcuda,
  pointer: DevicePointer,
  attempt: string,
): number {
  const start = new BigUint64Array(1);
  const size = new BigUint64Array(1);
  session.check(cuda.cuMemGetAddressRange(start, size, pointer), "cuMemGetAddressRange", attempt);
  return Number((start[0] as bigint) + (size[0] as bigint) - pointer);
}

function checkSupport(session: CudaSession, ordinal: number, shared: boolean): void {
  const supported = cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED;
  if (readAttribute(session, ordinal, supported) !== 1) {
    const found = "the driver says that the device has none (MEMORY_POOLS_SUPPORTED)";
    throw new CudaIpcError("UNSUPPORTED", `Cannot use memory pools on cuda:${ordinal}: ${found}`);
  }
  if (!shared) return;
  const handleTypes = cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES;
  const types = readAttribute(session, ordinal, handleTypes) ?? 0;
  if ((types & POSIX_FD) !== 0) return;
  const found =
    "the device cannot export them as descriptors " +
    `(MEMPOOL_SUPPORTED_HANDLE_TYPES is ${types})`;
  throw new CudaIpcError("UNSUPPORTED", `Cannot share memory pools on cuda:${ordinal}: ${found}`);
}

function checkShared(pool: CudaPool, what: string): void {
  if (pool.shared) return;
  const found = pool.imported ? "it was imported" : "the pool was not created to be shared";
  throw new CudaIpcError("UNSUPPORTED", `Cannot export ${what} of cuda:${pool.ordinal}: ${found}`);
}

function inUse(attempt: string): CudaIpcError {
  return new CudaIpcError("IN_USE", `Cannot ${attempt}: it is imported already`);
}
