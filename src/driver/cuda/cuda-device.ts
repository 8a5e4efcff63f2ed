/**
 * The devices of the CUDA driver: their facts, and which reach each other.
 * Only the free memory needs a context, so listing devices is cheap.
 * https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__DEVICE.html
 */
import { cuDeviceAttribute, cuResult, cuValue } from "../../ffi/cuda-constants.js";
import { deviceLocation, encodeAllocationProp, type Location } from "../../ffi/cuda-structs.js";
import { formatCudaVersion } from "../../ffi/libcuda.js";
import type { DeviceCalls } from "../gpu-driver.js";
import type { CudaSession } from "./cuda-session.js";

const ATTRIBUTE_PREFIX = "CU_DEVICE_ATTRIBUTE_";
const NAME_BYTES_MAX = 256;
/** Longer than any vector that kernels load and store at once. */
const ALIGNMENT_BYTES = 256;
/**
 * The granularity of every discrete GPU so far, for devices without VMM, whose driver tells none.
 */
const USUAL_GRANULARITY_BYTES = 2 * 1024 * 1024;

export function cudaDevices(session: CudaSession): DeviceCalls {
  return {
    deviceCount() {
      const out = new Int32Array(1);
      const status = session.cuda.cuDeviceGetCount(out);
      if (status === cuResult.CUDA_ERROR_NO_DEVICE) return 0;
      session.check(status, "cuDeviceGetCount", "count the GPUs");
      return out[0] as number;
    },

    describeDevice(ordinal) {
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
        computeCapability:
          major === undefined ? undefined : `${major}.${attributes.COMPUTE_CAPABILITY_MINOR ?? 0}`,
        attributes,
      };
    },

    memoryInfo(ordinal) {
      const free = new BigUint64Array(1);
      const total = new BigUint64Array(1);
      const status = session.enter(ordinal).cuMemGetInfo(free, total);
      session.check(status, "cuMemGetInfo", `ask cuda:${ordinal} for its free memory`);
      return { freeBytes: Number(free[0]), totalBytes: Number(total[0]) };
    },

    canAccessPeer(ordinal, peer) {
      const [device, peerDevice] = [session.device(ordinal), session.device(peer)];
      if (ordinal === peer) return true;
      const out = new Int32Array(1);
      const status = session.cuda.cuDeviceCanAccessPeer(out, device, peerDevice);
      const attempt = `ask whether cuda:${ordinal} reaches cuda:${peer}`;
      session.check(status, "cuDeviceCanAccessPeer", attempt);
      return out[0] === 1;
    },

    /** Virtual memory (mechanism vmm) does not need this: its mapping names the device. */
    enablePeerAccess(ordinal, peer) {
      if (ordinal === peer) return;
      const context = session.context(peer);
      const status = session.enter(ordinal).cuCtxEnablePeerAccess(context, 0);
      if (status === cuResult.CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return;
      const attempt = `let cuda:${ordinal} use memory of cuda:${peer}`;
      session.check(status, "cuCtxEnablePeerAccess", attempt);
    },
  };
}

/** The smallest granularity of exportable memory; by default of the device's own memory. */
export function granularity(session: CudaSession, ordinal: number, location?: Location): number {
  const properties = encodeAllocationProp(location ?? deviceLocation(session.device(ordinal)));
  const out = new BigUint64Array(1);
  const option = cuValue.CU_MEM_ALLOC_GRANULARITY_MINIMUM;
  let status = session.cuda.cuMemGetAllocationGranularity(out, properties, option);
  // WHY twice: a context costs device memory, and the manual does not promise an answer without
  // one.
  if (status === cuResult.CUDA_ERROR_INVALID_CONTEXT) {
    status = session.enter(ordinal).cuMemGetAllocationGranularity(out, properties, option);
  }
  if (status === cuResult.CUDA_ERROR_NOT_SUPPORTED) return USUAL_GRANULARITY_BYTES;
  const attempt = `ask cuda:${ordinal} for its granularity`;
  session.check(status, "cuMemGetAllocationGranularity", attempt);
  return Number(out[0]);
}

/** Reads an attribute; undefined if the driver is too old to know it. */
export function readAttribute(
  session: CudaSession,
  ordinal: number,
  attribute: number,
): number | undefined {
  const device = session.device(ordinal);
  const out = new Int32Array(1);
  const status = session.cuda.cuDeviceGetAttribute(out, attribute, device);
  if (status === cuResult.CUDA_ERROR_INVALID_VALUE) return undefined;
  session.check(status, "cuDeviceGetAttribute", `read attribute ${attribute} of cuda:${ordinal}`);
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
  session.check(status, "cuDeviceGetUuid", `read the UUID of cuda:${ordinal}`);
  return formatUuid(bytes);
}

/** Formats a UUID as nvidia-smi does: `GPU-`, then groups of 4, 2, 2, 2 and 6 bytes. */
function formatUuid(bytes: Uint8Array): string {
  const hex = Buffer.from(bytes).toString("hex");
  const groups = [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ];
  return `GPU-${groups.join("-")}`;
}

function readName(session: CudaSession, ordinal: number): string {
  const bytes = new Uint8Array(NAME_BYTES_MAX);
  const status = session.cuda.cuDeviceGetName(bytes, bytes.byteLength, session.device(ordinal));
  session.check(status, "cuDeviceGetName", `read the name of cuda:${ordinal}`);
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(bytes.subarray(0, end < 0 ? bytes.byteLength : end));
}

function readTotalBytes(session: CudaSession, ordinal: number): number {
  const out = new BigUint64Array(1);
  const status = session.cuda.cuDeviceTotalMem(out, session.device(ordinal));
  session.check(status, "cuDeviceTotalMem", `read the size of cuda:${ordinal}`);
  return Number(out[0]);
}

function readVersion(session: CudaSession): string {
  const out = new Int32Array(1);
  const status = session.cuda.cuDriverGetVersion(out);
  session.check(status, "cuDriverGetVersion", "read the driver's version");
  return formatCudaVersion(out[0] as number);
}
