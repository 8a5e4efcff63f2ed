/**
 * Host memory that a GPU works with: page-locked staging memory, and shared words registered for stream waits and writes.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
 *
 * Trap: cuMemFreeHost, as cuMemFree, may block until every wait that is pending in this process has ended.
 */
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import { acquireIn } from "../../base/scope.js";
import { cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { viewMemory } from "../../ffi/koffi.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import type { Access } from "../../os/mapping.js";
import { type AddressRange, AddressTable, formatAddress } from "../address-table.js";
import type { DevicePointer, HostPointer, StagingMemory } from "../gpu-driver.js";
import type { CudaSession } from "./cuda-session.js";

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

/** Memory is registered once in a process, for all devices (PORTABLE); each device has an address of its own for it. */
interface Registration extends AddressRange {
  readonly pointers: Map<number, DevicePointer>;
}

export class CudaHostMemory {
  readonly #session: CudaSession;
  readonly #registered = new AddressTable<Registration>("Registered host memory");
  /** By device and then by the address that its streams use. */
  readonly #visible = new Map<number, AddressTable<AddressRange>>();

  constructor(session: CudaSession) {
    this.#session = session;
  }

  allocateStaging(ordinal: number, byteLength: number): StagingMemory {
    checkInteger("Staging: byteLength", byteLength, 1, limits.viewBytesMax);
    const cuda = this.#session.enter(ordinal);
    const out = new BigUint64Array(1);
    const status = cuda.cuMemHostAlloc(out, byteLength, cuValue.CU_MEMHOSTALLOC_PORTABLE);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemHostAlloc", `allocate ${byteLength} bytes of staging memory`);
    }
    const address = out[0] as bigint;
    return acquireIn((scope) => {
      scope.defer(() => this.#freeHost(cuda, address));
      // SAFETY: the memory stays until `freeStaging`, after which `bytes` is not to be used; that is the promise of the seam.
      return new CudaStaging(ordinal, address, new Uint8Array(viewMemory(address, byteLength)));
    });
  }

  freeStaging(staging: StagingMemory): void {
    if (!(staging instanceof CudaStaging)) throw new TypeError("Cannot free staging memory of another driver");
    if (staging.freed) throw new CudaIpcError("CLOSED", "Cannot free staging memory: it was freed");
    const cuda = this.#session.enterToRelease(staging.ordinal);
    staging.freed = true;
    this.#freeHost(cuda, staging.address);
  }

  register(ordinal: number, pointer: HostPointer, byteLength: number, access: Access): DevicePointer {
    checkInteger("Registered memory: byteLength", byteLength, 1);
    this.#session.enter(ordinal);
    return acquireIn((scope) => {
      const registration = this.#registered.at(pointer) ?? this.#registerNew(ordinal, pointer, byteLength, access);
      scope.defer(() => this.#unregisterUnused(ordinal, registration));
      if (registration.pointers.has(ordinal)) {
        throw new RangeError(`Memory at ${formatAddress(pointer)} is already registered for cuda:${ordinal}`);
      }
      if (registration.byteLength !== byteLength || registration.access !== access) {
        throw new RangeError(`Memory at ${formatAddress(pointer)} is already registered with another size or access`);
      }
      const start = this.#devicePointer(ordinal, pointer);
      this.visibleOn(ordinal).add({ start, byteLength, access });
      registration.pointers.set(ordinal, start);
      return start;
    });
  }

  unregister(ordinal: number, pointer: HostPointer): void {
    this.#session.enterToRelease(ordinal);
    const registration = this.#registered.at(pointer);
    const devicePointer = registration?.pointers.get(ordinal);
    if (registration === undefined || devicePointer === undefined) {
      throw new RangeError(
        `Cannot unregister ${formatAddress(pointer)}: nothing is registered there for cuda:${ordinal}`,
      );
    }
    registration.pointers.delete(ordinal);
    this.visibleOn(ordinal).remove(devicePointer);
    this.#unregisterUnused(ordinal, registration);
  }

  /** The registered range that a stream of this device finds at this address. */
  holding(ordinal: number, pointer: DevicePointer): AddressRange | undefined {
    return this.#visible.get(ordinal)?.holding(pointer);
  }

  /** All registered ranges by the addresses that streams of this device use. */
  visibleOn(ordinal: number): AddressTable<AddressRange> {
    let table = this.#visible.get(ordinal);
    if (table === undefined) {
      table = new AddressTable("Registered host memory");
      this.#visible.set(ordinal, table);
    }
    return table;
  }

  #registerNew(ordinal: number, start: HostPointer, byteLength: number, access: Access): Registration {
    const registration = { start, byteLength, access, pointers: new Map<number, DevicePointer>() };
    // WHY first: an overlap is then refused in words, before the driver is asked.
    this.#registered.add(registration);
    // SAFETY: the caller keeps the memory mapped, at least as accessible as `access` says, until it is unregistered.
    const flags = access === "read" ? REGISTER_FLAGS | cuValue.CU_MEMHOSTREGISTER_READ_ONLY : REGISTER_FLAGS;
    const status = this.#session.cuda.cuMemHostRegister(start, byteLength, flags);
    if (status !== cuResult.CUDA_SUCCESS) {
      this.#registered.remove(start);
      const attempt = `register ${byteLength} bytes of host memory for ${access} on cuda:${ordinal}`;
      throw this.#session.failure(status, "cuMemHostRegister", attempt);
    }
    return registration;
  }

  #unregisterUnused(ordinal: number, registration: Registration): void {
    if (registration.pointers.size > 0) return;
    this.#registered.remove(registration.start);
    const status = this.#session.cuda.cuMemHostUnregister(registration.start);
    this.#session.checkReleased(status, "cuMemHostUnregister", `unregister host memory on cuda:${ordinal}`);
  }

  /** WHY asked for: the address is the host's own only on devices that say so (CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM). */
  #devicePointer(ordinal: number, pointer: HostPointer): DevicePointer {
    const out = new BigUint64Array(1);
    const status = this.#session.cuda.cuMemHostGetDevicePointer(out, pointer, 0);
    if (status !== cuResult.CUDA_SUCCESS) {
      const attempt = `find registered memory on cuda:${ordinal}`;
      throw this.#session.failure(status, "cuMemHostGetDevicePointer", attempt);
    }
    return out[0] as bigint;
  }

  #freeHost(cuda: Libcuda, address: bigint): void {
    this.#session.checkReleased(cuda.cuMemFreeHost(address), "cuMemFreeHost", "free staging memory");
  }
}
