/**
 * Device memory by virtual memory management: physical memory and its descriptors. Mappings are in cuda-mapping.ts.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
 *
 * Physical memory lives until the last of these is gone, in any process: a handle, a mapping, an exported descriptor.
 */
import { type CudaError, CudaIpcError } from "../../base/errors.js";
import { acquireIn } from "../../base/scope.js";
import { cuDeviceAttribute, cuResult, cuValue } from "../../ffi/cuda-constants.js";
import {
  decodeAllocationProp,
  deviceLocation,
  encodeAllocationProp,
  type Location,
  structLayouts,
} from "../../ffi/cuda-structs.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import { OwnedFd } from "../../os/owned-fd.js";
import type { DriverMemory, MemoryPlace } from "../gpu-driver.js";
import { checkMemorySize } from "../operation-checks.js";
import { granularity, readAttribute } from "./cuda-device.js";
import type { CudaSession } from "./cuda-session.js";
import { errorCodeOf } from "./cuda-status.js";

const POSIX_FD = cuValue.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

export class CudaMemory implements DriverMemory {
  readonly ordinal: number;
  readonly byteLength: number;
  readonly place: MemoryPlace;
  readonly handle: bigint;
  readonly imported: boolean;
  released = false;

  constructor(ordinal: number, byteLength: number, place: MemoryPlace, handle: bigint, imported: boolean) {
    this.ordinal = ordinal;
    this.byteLength = byteLength;
    this.place = place;
    this.handle = handle;
    this.imported = imported;
  }
}

export class CudaMemories {
  readonly #session: CudaSession;
  readonly #granularities = new Map<string, number>();

  constructor(session: CudaSession) {
    this.#session = session;
  }

  create(ordinal: number, byteLength: number, place: MemoryPlace = "device"): CudaMemory {
    const cuda = this.#session.enter(ordinal);
    const location = this.location(ordinal, place);
    checkMemorySize(byteLength, this.#granularity(ordinal, place));
    const out = new BigUint64Array(1);
    const status = cuda.cuMemCreate(out, byteLength, encodeAllocationProp(location), 0n);
    if (status !== cuResult.CUDA_SUCCESS) {
      const where = place === "device" ? `cuda:${ordinal}` : `NUMA node ${location.id} beside cuda:${ordinal}`;
      throw this.#session.failure(status, "cuMemCreate", `create ${byteLength} bytes on ${where}`);
    }
    return new CudaMemory(ordinal, byteLength, place, out[0] as bigint, false);
  }

  /**
   * The driver's own name of a place.
   * @throws UNSUPPORTED where the device has no memory of the machine beside it
   */
  location(ordinal: number, place: MemoryPlace): Location {
    if (place === "device") return deviceLocation(this.#session.device(ordinal));
    const supported = cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
    const node = readAttribute(this.#session, ordinal, cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID);
    if (readAttribute(this.#session, ordinal, supported) !== 1 || node === undefined || node < 0) {
      const message = `Cannot use host-numa memory with cuda:${ordinal}: the driver says that it has none to share`;
      throw new CudaIpcError("UNSUPPORTED", message);
    }
    return { type: cuValue.CU_MEM_LOCATION_TYPE_HOST_NUMA, id: node };
  }

  export(memory: DriverMemory): OwnedFd {
    const { handle, ordinal } = usableMemory(memory, "export");
    const cuda = this.#session.enter(ordinal);
    const out = new Int32Array(1);
    const status = cuda.cuMemExportToShareableHandle(out, handle, POSIX_FD, 0n);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemExportToShareableHandle", `export memory of cuda:${ordinal}`);
    }
    return OwnedFd.adopt(out[0] as number);
  }

  /** Each import is a handle of its own, also of memory that was created or imported here before. */
  import(ordinal: number, fd: OwnedFd, byteLength: number, place: MemoryPlace = "device"): CudaMemory {
    const cuda = this.#session.enter(ordinal);
    const attempt = `import ${byteLength} bytes on cuda:${ordinal}`;
    const multiple = this.#granularity(ordinal, place);
    if (!Number.isSafeInteger(byteLength) || byteLength <= 0 || byteLength % multiple !== 0) {
      throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot ${attempt}: the size is not a multiple of ${multiple}`);
    }
    const out = new BigUint64Array(1);
    // SAFETY: the number of the descriptor is the argument itself. The driver takes no ownership of it.
    const status = cuda.cuMemImportFromShareableHandle(out, BigInt(fd.number), POSIX_FD);
    if (status !== cuResult.CUDA_SUCCESS) throw this.#importFailure(status, attempt, ordinal);
    return acquireIn((scope) => {
      const imported = new CudaMemory(ordinal, byteLength, place, out[0] as bigint, true);
      const memory = scope.own(imported, (it) => this.release(it));
      this.#refuseOtherPlace(cuda, memory, attempt);
      return memory;
    });
  }

  release(memory: DriverMemory): void {
    const own = usableMemory(memory, "release");
    const cuda = this.#session.enterToRelease(own.ordinal);
    own.released = true;
    const status = cuda.cuMemRelease(own.handle);
    this.#session.checkReleased(status, "cuMemRelease", `release memory of cuda:${own.ordinal}`);
  }

  /**
   * WHY not simply by status: nothing promises how a descriptor of something else fails. "Not supported" is the device's answer
   * only where the device cannot import descriptors at all; otherwise the descriptor is to blame.
   */
  #importFailure(status: number, attempt: string, ordinal: number): CudaError {
    const call = "cuMemImportFromShareableHandle";
    const code = errorCodeOf(status);
    if (code !== "CUDA_ERROR" && code !== "UNSUPPORTED") return this.#session.failure(status, call, attempt);
    const attribute = cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
    if (code === "UNSUPPORTED" && readAttribute(this.#session, ordinal, attribute) !== 1) {
      return this.#session.failure(status, call, attempt);
    }
    return this.#session.failure(status, call, `${attempt} from this descriptor`, "INVALID_DESCRIPTOR");
  }

  #refuseOtherPlace(cuda: Libcuda, memory: CudaMemory, attempt: string): void {
    const bytes = new Uint8Array(structLayouts.CUmemAllocationProp.byteLength);
    // WHY a failure is no error: this is a courtesy of newer drivers; where the driver does not tell, nothing is known against it.
    if (cuda.cuMemGetAllocationPropertiesFromHandle(bytes, memory.handle) !== cuResult.CUDA_SUCCESS) return;
    const { locationType } = decodeAllocationProp(bytes);
    const found = hostLocations.includes(locationType) ? "host-numa" : "device";
    if (found !== memory.place) {
      const message = `Cannot ${attempt}: the memory is ${found} (location type ${locationType}), wanted ${memory.place}`;
      throw new CudaIpcError("INVALID_DESCRIPTOR", message);
    }
  }

  #granularity(ordinal: number, place: MemoryPlace): number {
    const key = `${ordinal} ${place}`;
    const known = this.#granularities.get(key);
    if (known !== undefined) return known;
    const bytes = granularity(this.#session, ordinal, this.location(ordinal, place));
    this.#granularities.set(key, bytes);
    return bytes;
  }
}

const hostLocations: readonly number[] = [
  cuValue.CU_MEM_LOCATION_TYPE_HOST,
  cuValue.CU_MEM_LOCATION_TYPE_HOST_NUMA,
  cuValue.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
];

/** @throws TypeError for memory of another driver, CLOSED for memory that was released */
export function usableMemory(memory: DriverMemory, verb: string): CudaMemory {
  if (!(memory instanceof CudaMemory)) throw new TypeError(`Cannot ${verb} memory of another driver`);
  if (!memory.released) return memory;
  throw new CudaIpcError("CLOSED", `Cannot ${verb} memory of cuda:${memory.ordinal}: it was released`);
}
