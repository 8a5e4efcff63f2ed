/** What the driver tells about its devices. Needs no context but for the free memory, so that listing devices is cheap. */
import { cuDeviceAttribute, cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { deviceLocation, encodeAllocationProp, type Location } from "../../ffi/cuda-structs.js";
import { formatCudaVersion } from "../../ffi/libcuda.js";
import type { DeviceFacts } from "../gpu-driver.js";
import type { CudaSession } from "./cuda-session.js";

const ATTRIBUTE_PREFIX = "CU_DEVICE_ATTRIBUTE_";
const NAME_BYTES_MAX = 256;
/** Longer than every vector that kernels load and store at once. */
const ALIGNMENT_BYTES = 256;
/** What every discrete GPU has had so far; stands in where the driver cannot say because it has no VMM on the device. */
const USUAL_GRANULARITY_BYTES = 2 * 1024 * 1024;

export function deviceCount(session: CudaSession): number {
  const out = new Int32Array(1);
  const status = session.cuda.cuDeviceGetCount(out);
  if (status === cuResult.CUDA_ERROR_NO_DEVICE) return 0;
  if (status !== cuResult.CUDA_SUCCESS) throw session.failure(status, "cuDeviceGetCount", "count the GPUs");
  return out[0] as number;
}

export function describeDevice(session: CudaSession, ordinal: number): DeviceFacts {
  const attributes = readAttributes(session, ordinal);
  const major = attributes.COMPUTE_CAPABILITY_MAJOR;
  return {
    ordinal,
    id: `cuda:${ordinal}`,
    reference: { kind: "cuda", uuid: readUuid(session, ordinal) },
    name: readName(session, ordinal),
    totalBytes: readTotalBytes(session, ordinal),
    granularityBytes: granularity(session, ordinal),
    alignmentBytes: ALIGNMENT_BYTES,
    driverVersion: `CUDA ${readVersion(session)}`,
    computeCapability: major === undefined ? undefined : `${major}.${attributes.COMPUTE_CAPABILITY_MINOR ?? 0}`,
    attributes,
  };
}

export function memoryInfo(session: CudaSession, ordinal: number): { freeBytes: number; totalBytes: number } {
  const free = new BigUint64Array(1);
  const total = new BigUint64Array(1);
  const status = session.enter(ordinal).cuMemGetInfo(free, total);
  if (status !== cuResult.CUDA_SUCCESS) {
    throw session.failure(status, "cuMemGetInfo", `ask cuda:${ordinal} for its free memory`);
  }
  return { freeBytes: Number(free[0]), totalBytes: Number(total[0]) };
}

/** The smallest granularity of exportable memory, by default that of the device itself. */
export function granularity(session: CudaSession, ordinal: number, location?: Location): number {
  const properties = encodeAllocationProp(location ?? deviceLocation(session.device(ordinal)));
  const out = new BigUint64Array(1);
  const option = cuValue.CU_MEM_ALLOC_GRANULARITY_MINIMUM;
  let status = session.cuda.cuMemGetAllocationGranularity(out, properties, option);
  // WHY: the manual does not promise an answer without a context, and a context costs memory on the device.
  if (status === cuResult.CUDA_ERROR_INVALID_CONTEXT) {
    status = session.enter(ordinal).cuMemGetAllocationGranularity(out, properties, option);
  }
  if (status === cuResult.CUDA_ERROR_NOT_SUPPORTED) return USUAL_GRANULARITY_BYTES;
  if (status !== cuResult.CUDA_SUCCESS) {
    throw session.failure(status, "cuMemGetAllocationGranularity", `ask cuda:${ordinal} for its granularity`);
  }
  return Number(out[0]);
}

/** One attribute, or undefined where the driver is too old to know it. */
export function readAttribute(session: CudaSession, ordinal: number, attribute: number): number | undefined {
  const device = session.device(ordinal);
  const out = new Int32Array(1);
  const status = session.cuda.cuDeviceGetAttribute(out, attribute, device);
  if (status === cuResult.CUDA_ERROR_INVALID_VALUE) return undefined;
  if (status !== cuResult.CUDA_SUCCESS) {
    throw session.failure(status, "cuDeviceGetAttribute", `read attribute ${attribute} of cuda:${ordinal}`);
  }
  return out[0];
}

function readAttributes(session: CudaSession, ordinal: number): Readonly<Record<string, number>> {
  const values: Record<string, number> = {};
  for (const [name, attribute] of Object.entries(cuDeviceAttribute)) {
    const value = readAttribute(session, ordinal, attribute);
    if (value !== undefined) values[name.slice(ATTRIBUTE_PREFIX.length)] = value;
  }
  return values;
}

function readUuid(session: CudaSession, ordinal: number): string {
  const bytes = new Uint8Array(16);
  const status = session.cuda.cuDeviceGetUuid(bytes, session.device(ordinal));
  if (status !== cuResult.CUDA_SUCCESS) {
    throw session.failure(status, "cuDeviceGetUuid", `read the UUID of cuda:${ordinal}`);
  }
  return formatUuid(bytes);
}

/** As nvidia-smi prints it: `GPU-` and the bytes in order, in groups of 4, 2, 2, 2 and 6. */
function formatUuid(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString("hex");
  const groups = [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)];
  return `GPU-${groups.join("-")}`;
}

function readName(session: CudaSession, ordinal: number): string {
  const bytes = new Uint8Array(NAME_BYTES_MAX);
  const status = session.cuda.cuDeviceGetName(bytes, bytes.byteLength, session.device(ordinal));
  if (status !== cuResult.CUDA_SUCCESS) {
    throw session.failure(status, "cuDeviceGetName", `read the name of cuda:${ordinal}`);
  }
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(bytes.subarray(0, end < 0 ? bytes.byteLength : end));
}

function readTotalBytes(session: CudaSession, ordinal: number): number {
  const out = new BigUint64Array(1);
  const status = session.cuda.cuDeviceTotalMem(out, session.device(ordinal));
  if (status !== cuResult.CUDA_SUCCESS) {
    throw session.failure(status, "cuDeviceTotalMem", `read the size of cuda:${ordinal}`);
  }
  return Number(out[0]);
}

function readVersion(session: CudaSession): string {
  const out = new Int32Array(1);
  const status = session.cuda.cuDriverGetVersion(out);
  if (status !== cuResult.CUDA_SUCCESS)
    throw session.failure(status, "cuDriverGetVersion", "read the driver's version");
  return formatCudaVersion(out[0] as number);
}
