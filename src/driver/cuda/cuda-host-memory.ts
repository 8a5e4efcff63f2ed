/**
 * Host memory that a GPU works with: page-locked staging memory, and shared words registered for
 * waits and writes of streams.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
 *
 * Trap: cuMemFreeHost, like cuMemFree, may block until every pending wait of this process has
 * ended.
 */
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { acquireIn } from "../../base/scope.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { viewMemory } from "../../ffi/koffi.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import type { Access } from "../../os/mapping.js";
import { type AddressRange, AddressTable, formatAddress } from "../common/address-table.js";
import type { DevicePointer, HostPointer, MemoryCalls, StagingMemory } from "../memory-calls.js";
import type { CudaAddresses } from "./cuda-addresses.js";
import type { CudaSession } from "./cuda-session.js";

export type HostMemoryCalls = Pick<
  MemoryCalls,
  "allocateStaging" | "freeStaging" | "registerHostMemory" | "unregisterHostMemory"
>;

const REGISTER_FLAGS = cuValue.CU_MEMHOSTREGISTER_PORTABLE | cuValue.CU_MEMHOSTREGISTER_DEVICEMAP;

class CudaStaging implements StagingMemory {
  readonly ordinal: number;
  readonly address: HostPointer;
  readonly bytes: Uint8Array;
  freed = false;

  constructor(ordinal: number, address: HostPointer, bytes: Uint8Array) {
    this.ordinal = ordinal;
    this.address = address;
    this.bytes = bytes;
  }

  get byteLength(): number {
    return this.bytes.byteLength;
  }
}

/** Memory is registered once per process, for all devices (PORTABLE). Each has its own address. */
interface Registration extends AddressRange {
  readonly pointers: Map<number, DevicePointer>;
}

export function cudaHostMemory(session: CudaSession, addresses: CudaAddresses): HostMemoryCalls {
  return { ...stagingCalls(session), ...registrationCalls(session, addresses) };
}

function stagingCalls(
  session: CudaSession,
): Pick<HostMemoryCalls, "allocateStaging" | "freeStaging"> {
  function freeHost(cuda: Libcuda, address: bigint): void {
    session.checkReleased(cuda.cuMemFreeHost(address), "cuMemFreeHost", "free staging memory");
  }

  return {
    allocateStaging(ordinal, byteLength) {
      checkInteger("Staging: byteLength", byteLength, 1, limits.viewBytesMax);
      const cuda = session.enter(ordinal);
      const out = new BigUint64Array(1);
      const status = cuda.cuMemHostAlloc(out, byteLength, cuValue.CU_MEMHOSTALLOC_PORTABLE);
      const attempt = `allocate ${byteLength} bytes of staging memory`;
      session.check(status, "cuMemHostAlloc", attempt);
      const address = out[0] as bigint;
      return acquireIn((scope) => {
        scope.defer(() => freeHost(cuda, address));
        // SAFETY: the memory stays until `freeStaging`. The seam forbids the use of `bytes` after
        // it.
        return new CudaStaging(ordinal, address, new Uint8Array(viewMemory(address, byteLength)));
      });
    },

    freeStaging(staging) {
      if (!(staging instanceof CudaStaging))
        throw new TypeError("Cannot free staging memory of another driver");
      if (staging.freed)
        throw new CudaIpcError("CLOSED", "Cannot free staging memory: it was freed");
      const cuda = session.enterToRelease(staging.ordinal);
      staging.freed = true;
      freeHost(cuda, staging.address);
    },
  };
}

function registrationCalls(
  session: CudaSession,
  addresses: CudaAddresses,
): Pick<HostMemoryCalls, "registerHostMemory" | "unregisterHostMemory"> {
  const registered = new AddressTable<Registration>("Registered host memory");

  function registerNew(
    ordinal: number,
    start: HostPointer,
    byteLength: number,
    access: Access,
  ): Registration {
    const registration = { start, byteLength, access, pointers: new Map<number, DevicePointer>() };
    // WHY first: an overlap then gets our message, and the driver is not called.
    registered.add(registration);
    // SAFETY: the caller keeps the memory mapped, with at least this access, until unregistered.
    const flags =
      access === "read" ? REGISTER_FLAGS | cuValue.CU_MEMHOSTREGISTER_READ_ONLY : REGISTER_FLAGS;
    const status = session.cuda.cuMemHostRegister(start, byteLength, flags);
    if (status !== cuResult.CUDA_SUCCESS) {
      registered.remove(start);
      const memory = `${byteLength} bytes of host memory for ${access}`;
      const attempt = `register ${memory} on cuda:${ordinal}`;
      throw session.failure(status, "cuMemHostRegister", attempt);
    }
    return registration;
  }

  function unregisterUnused(ordinal: number, registration: Registration): void {
    if (registration.pointers.size > 0) return;
    registered.remove(registration.start);
    const status = session.cuda.cuMemHostUnregister(registration.start);
    const attempt = `unregister host memory on cuda:${ordinal}`;
    session.checkReleased(status, "cuMemHostUnregister", attempt);
  }

  /** Only devices with CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM use the host's own address. */
  function devicePointerOf(ordinal: number, pointer: HostPointer): DevicePointer {
    const out = new BigUint64Array(1);
    const status = session.cuda.cuMemHostGetDevicePointer(out, pointer, 0);
    const attempt = `find registered memory on cuda:${ordinal}`;
    session.check(status, "cuMemHostGetDevicePointer", attempt);
    return out[0] as bigint;
  }

  return {
    registerHostMemory(ordinal, pointer, byteLength, access) {
      checkInteger("Registered memory: byteLength", byteLength, 1);
      session.enter(ordinal);
      return acquireIn((scope) => {
        const registration =
          registered.at(pointer) ?? registerNew(ordinal, pointer, byteLength, access);
        scope.defer(() => unregisterUnused(ordinal, registration));
        if (registration.pointers.has(ordinal)) {
          throw new RangeError(
            `Memory at ${formatAddress(pointer)} is already registered for cuda:${ordinal}`,
          );
        }
        if (registration.byteLength !== byteLength || registration.access !== access) {
          throw new RangeError(
            `Memory at ${formatAddress(pointer)} is already registered with another size or access`,
          );
        }
        const start = devicePointerOf(ordinal, pointer);
        addresses.registeredOn(ordinal).add({ start, byteLength, access });
        registration.pointers.set(ordinal, start);
        return start;
      });
    },

    unregisterHostMemory(ordinal, pointer) {
      session.enterToRelease(ordinal);
      const registration = registered.at(pointer);
      const devicePointer = registration?.pointers.get(ordinal);
      if (registration === undefined || devicePointer === undefined) {
        const found = `nothing is registered there for cuda:${ordinal}`;
        throw new RangeError(`Cannot unregister ${formatAddress(pointer)}: ${found}`);
      }
      registration.pointers.delete(ordinal);
      addresses.registeredOn(ordinal).remove(devicePointer);
      unregisterUnused(ordinal, registration);
    },
  };
}
