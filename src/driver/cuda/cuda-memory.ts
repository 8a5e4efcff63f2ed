/**
 * Physical device memory and its descriptors, by virtual memory management. Mappings are in
 * cuda-mapping.ts. https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html
 *
 * Physical memory lives until the last handle, mapping and exported descriptor of it is gone, in
 * any process.
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
import { checkMemorySize } from "../common/argument-checks.js";
import type { DriverMemory, MemoryCalls, MemoryPlace } from "../memory-calls.js";
import { granularity, readAttribute } from "./cuda-device.js";
import type { CudaSession } from "./cuda-session.js";
import { errorCodeOf } from "./cuda-status.js";

const POSIX_FD = cuValue.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

export type PhysicalMemoryCalls = Pick<
  MemoryCalls,
  "createMemory" | "exportMemory" | "importMemory" | "releaseMemory"
>;

export class CudaMemory implements DriverMemory {
  readonly ordinal: number;
  readonly byteLength: number;
  readonly place: MemoryPlace;
  readonly handle: bigint;
  readonly imported: boolean;
  released = false;

  constructor(
    ordinal: number,
    byteLength: number,
    place: MemoryPlace,
    handle: bigint,
    imported: boolean,
  ) {
    this.ordinal = ordinal;
    this.byteLength = byteLength;
    this.place = place;
    this.handle = handle;
    this.imported = imported;
  }
}

export function cudaMemory(session: CudaSession): PhysicalMemoryCalls {
  const granularities = new Map<string, number>();

  function granularityOf(ordinal: number, place: MemoryPlace): number {
    const key = `${ordinal} ${place}`;
    const known = granularities.get(key);
    if (known !== undefined) return known;
    const bytes = granularity(session, ordinal, locationOf(session, ordinal, place));
    granularities.set(key, bytes);
    return bytes;
  }

  function releaseMemory(memory: DriverMemory): void {
    const own = usableMemory(memory, "release");
    const cuda = session.enterToRelease(own.ordinal);
    own.released = true;
    const status = cuda.cuMemRelease(own.handle);
    session.checkReleased(status, "cuMemRelease", `release memory of cuda:${own.ordinal}`);
  }

  return {
    createMemory(ordinal, byteLength, place = "device") {
      const cuda = session.enter(ordinal);
      const location = locationOf(session, ordinal, place);
      checkMemorySize(byteLength, granularityOf(ordinal, place));
      const out = new BigUint64Array(1);
      const status = cuda.cuMemCreate(out, byteLength, encodeAllocationProp(location), 0n);
      const where =
        place === "device" ? `cuda:${ordinal}` : `NUMA node ${location.id} beside cuda:${ordinal}`;
      session.check(status, "cuMemCreate", `create ${byteLength} bytes on ${where}`);
      return new CudaMemory(ordinal, byteLength, place, out[0] as bigint, false);
    },

    exportMemory(memory) {
      const { handle, ordinal } = usableMemory(memory, "export");
      const cuda = session.enter(ordinal);
      const out = new Int32Array(1);
      const status = cuda.cuMemExportToShareableHandle(out, handle, POSIX_FD, 0n);
      const attempt = `export memory of cuda:${ordinal}`;
      session.check(status, "cuMemExportToShareableHandle", attempt);
      return OwnedFd.adopt(out[0] as number);
    },

    /** Each import is a handle of its own, also for memory that this process has already. */
    importMemory(ordinal, fd, byteLength, place = "device") {
      const cuda = session.enter(ordinal);
      const attempt = `import ${byteLength} bytes on cuda:${ordinal}`;
      const multiple = granularityOf(ordinal, place);
      if (!Number.isSafeInteger(byteLength) || byteLength <= 0 || byteLength % multiple !== 0) {
        throw new CudaIpcError(
          "INVALID_DESCRIPTOR",
          `Cannot ${attempt}: the size is not a multiple of ${multiple}`,
        );
      }
      const out = new BigUint64Array(1);
      // SAFETY: the descriptor's number is the argument itself. The driver does not take ownership.
      const status = cuda.cuMemImportFromShareableHandle(out, BigInt(fd.number), POSIX_FD);
      if (status !== cuResult.CUDA_SUCCESS) throw importFailure(session, status, attempt, ordinal);
      return acquireIn((scope) => {
        const imported = new CudaMemory(ordinal, byteLength, place, out[0] as bigint, true);
        const memory = scope.own(imported, releaseMemory);
        refuseOtherPlace(cuda, memory, attempt);
        return memory;
      });
    },

    releaseMemory,
  };
}

/**
 * Returns the driver's own name of a kind of memory.
 * @throws UNSUPPORTED if the device has no host-numa memory
 */
export function locationOf(session: CudaSession, ordinal: number, place: MemoryPlace): Location {
  if (place === "device") return deviceLocation(session.device(ordinal));
  const supported =
    cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_HOST_NUMA_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;
  const numaNode = cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID;
  const node = readAttribute(session, ordinal, numaNode);
  if (readAttribute(session, ordinal, supported) !== 1 || node === undefined || node < 0) {
    throw new CudaIpcError(
      "UNSUPPORTED",
      `Cannot use host-numa memory with cuda:${ordinal}: the driver cannot share such memory`,
    );
  }
  return { type: cuValue.CU_MEM_LOCATION_TYPE_HOST_NUMA, id: node };
}

/** @throws TypeError for memory of another driver, CLOSED for memory that was released */
export function usableMemory(memory: DriverMemory, verb: string): CudaMemory {
  if (!(memory instanceof CudaMemory))
    throw new TypeError(`Cannot ${verb} memory of another driver`);
  if (!memory.released) return memory;
  throw new CudaIpcError(
    "CLOSED",
    `Cannot ${verb} memory of cuda:${memory.ordinal}: it was released`,
  );
}

/**
 * Nothing promises how a descriptor of something else fails. "Not supported" can be the device's
 * answer only if the device cannot import descriptors at all. Otherwise the descriptor is to blame.
 */
function importFailure(
  session: CudaSession,
  status: number,
  attempt: string,
  ordinal: number,
): CudaError {
  const call = "cuMemImportFromShareableHandle";
  const code = errorCodeOf(status);
  if (code !== "CUDA_ERROR" && code !== "UNSUPPORTED")
    return session.failure(status, call, attempt);
  const attribute =
    cuDeviceAttribute.CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED;
  if (code === "UNSUPPORTED" && readAttribute(session, ordinal, attribute) !== 1)
    return session.failure(status, call, attempt);
  return session.failure(status, call, `${attempt} from this descriptor`, "INVALID_DESCRIPTOR");
}

const hostLocations: readonly number[] = [
  cuValue.CU_MEM_LOCATION_TYPE_HOST,
  cuValue.CU_MEM_LOCATION_TYPE_HOST_NUMA,
  cuValue.CU_MEM_LOCATION_TYPE_HOST_NUMA_CURRENT,
];

function refuseOtherPlace(cuda: Libcuda, memory: CudaMemory, attempt: string): void {
  const bytes = new Uint8Array(structLayouts.CUmemAllocationProp.byteLength);
  // WHY a failure is ignored: only newer drivers answer, and without an answer nothing is wrong.
  if (cuda.cuMemGetAllocationPropertiesFromHandle(bytes, memory.handle) !== cuResult.CUDA_SUCCESS)
    return;
  const { locationType } = decodeAllocationProp(bytes);
  const found = hostLocations.includes(locationType) ? "host-numa" : "device";
  if (found === memory.place) return;
  const shown = `the memory is ${found} (location type ${locationType}), wanted ${memory.place}`;
  throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot ${attempt}: ${shown}`);
}
