/**
 * Device memory by virtual memory management: physical memory and its descriptors. Mappings are in cuda-mapping.ts.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
 *
 * Physical memory lives until the last of these is gone, in any process: a handle, a mapping, an exported descriptor.
 */
import { type CudaError, CudaIpcError } from "../../base/errors.js";
import { acquireIn } from "../../base/scope.js";
import { cuDeviceAttribute, cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { decodeAllocationProp, encodeAllocationProp, structLayouts } from "../../ffi/cuda-structs.js";
import { libc } from "../../ffi/libc.js";
import type { Libcuda } from "../../ffi/libcuda.js";
import { OwnedFd } from "../../os/owned-fd.js";
import { systemError } from "../../os/system-error.js";
import type { DriverMemory } from "../gpu-driver.js";
import { checkMemorySize } from "../operation-checks.js";
import { granularity, readAttribute } from "./cuda-device.js";
import type { CudaSession } from "./cuda-session.js";
import { errorCodeOf } from "./cuda-status.js";

const F_SETFD = 2;
const FD_CLOEXEC = 1;
const POSIX_FD = cuValue.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

export class CudaMemory implements DriverMemory {
  readonly ordinal: number;
  readonly byteLength: number;
  readonly handle: bigint;
  readonly imported: boolean;
  released = false;

  constructor(ordinal: number, byteLength: number, handle: bigint, imported: boolean) {
    this.ordinal = ordinal;
    this.byteLength = byteLength;
    this.handle = handle;
    this.imported = imported;
  }
}

export class CudaMemories {
  readonly #session: CudaSession;
  readonly #granularities = new Map<number, number>();

  constructor(session: CudaSession) {
    this.#session = session;
  }

  create(ordinal: number, byteLength: number): CudaMemory {
    const cuda = this.#session.enter(ordinal);
    checkMemorySize(byteLength, this.#granularity(ordinal));
    const out = new BigUint64Array(1);
    const properties = encodeAllocationProp(this.#session.device(ordinal));
    const status = cuda.cuMemCreate(out, byteLength, properties, 0n);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemCreate", `create ${byteLength} bytes on cuda:${ordinal}`);
    }
    return new CudaMemory(ordinal, byteLength, out[0] as bigint, false);
  }

  export(memory: DriverMemory): OwnedFd {
    const { handle, ordinal } = usableMemory(memory, "export");
    const cuda = this.#session.enter(ordinal);
    const out = new Int32Array(1);
    const status = cuda.cuMemExportToShareableHandle(out, handle, POSIX_FD, 0n);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemExportToShareableHandle", `export memory of cuda:${ordinal}`);
    }
    return acquireIn((scope) => {
      const fd = scope.own(new OwnedFd(out[0] as number), (fd) => fd.close());
      // SAFETY: driver 580 sets close-on-exec by itself, but nothing promises it; a child that inherits the descriptor
      // would keep the memory alive for as long as it runs.
      if (libc().fcntl(fd.number, F_SETFD, FD_CLOEXEC) < 0) throw systemError("set close-on-exec", "fcntl");
      return fd;
    });
  }

  /** Each import is a handle of its own, also of memory that was created or imported here before. */
  import(ordinal: number, fd: OwnedFd, byteLength: number): CudaMemory {
    const cuda = this.#session.enter(ordinal);
    const attempt = `import ${byteLength} bytes on cuda:${ordinal}`;
    const multiple = this.#granularity(ordinal);
    if (!Number.isSafeInteger(byteLength) || byteLength <= 0 || byteLength % multiple !== 0) {
      throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot ${attempt}: the size is not a multiple of ${multiple}`);
    }
    const out = new BigUint64Array(1);
    // SAFETY: the number of the descriptor is the argument itself. The driver takes no ownership of it.
    const status = cuda.cuMemImportFromShareableHandle(out, BigInt(fd.number), POSIX_FD);
    if (status !== cuResult.CUDA_SUCCESS) throw this.#importFailure(status, attempt, ordinal);
    return acquireIn((scope) => {
      const memory = scope.own(new CudaMemory(ordinal, byteLength, out[0] as bigint, true), (it) => this.release(it));
      this.#refuseHostMemory(cuda, memory, attempt);
      return memory;
    });
  }

  release(memory: DriverMemory): void {
    const own = usableMemory(memory, "release");
    const cuda = this.#session.enter(own.ordinal);
    own.released = true;
    const status = cuda.cuMemRelease(own.handle);
    if (status !== cuResult.CUDA_SUCCESS) {
      throw this.#session.failure(status, "cuMemRelease", `release memory of cuda:${own.ordinal}`);
    }
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

  #refuseHostMemory(cuda: Libcuda, memory: CudaMemory, attempt: string): void {
    const bytes = new Uint8Array(structLayouts.CUmemAllocationProp.byteLength);
    // WHY a failure is no error: this is a courtesy of newer drivers; where the driver does not tell, nothing is known against it.
    if (cuda.cuMemGetAllocationPropertiesFromHandle(bytes, memory.handle) !== cuResult.CUDA_SUCCESS) return;
    const { locationType } = decodeAllocationProp(bytes);
    if (hostLocations.includes(locationType)) {
      const found = `the memory is the host's (location type ${locationType}), not a device's`;
      throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot ${attempt}: ${found}`);
    }
  }

  #granularity(ordinal: number): number {
    const known = this.#granularities.get(ordinal);
    if (known !== undefined) return known;
    const bytes = granularity(this.#session, ordinal);
    this.#granularities.set(ordinal, bytes);
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
