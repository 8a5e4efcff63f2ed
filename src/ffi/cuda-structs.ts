/**
 * The structs of cuda.h that are passed to libcuda, as bytes. Little-endian, as on every machine
 * that has libcuda. test/unit/ffi/cuda-header.test.ts compares every size and offset with a real
 * header.
 */
import { cuValue } from "./cuda-constants.js";

export interface StructLayout {
  readonly byteLength: number;
  readonly offsets: Readonly<Record<string, number>>;
}

/*
 * CUmemAllocationProp, 32 bytes
 *   0      4                      8               12            16
 *   | type | requestedHandleTypes | location.type | location.id |
 *   16                    24           32
 *   | win32HandleMetaData | allocFlags |
 *   allocFlags: compressionType u8, gpuDirectRDMACapable u8, usage u16, 4 reserved bytes.
 *   All of them are 0 here.
 */
const allocationProp = {
  byteLength: 32,
  offsets: {
    type: 0,
    requestedHandleTypes: 4,
    "location.type": 8,
    "location.id": 12,
    win32HandleMetaData: 16,
    "allocFlags.compressionType": 24,
    "allocFlags.gpuDirectRDMACapable": 25,
    "allocFlags.usage": 26,
  },
} as const satisfies StructLayout;

/* CUmemAccessDesc, 12 bytes: location.type, location.id, flags */
const accessDesc = {
  byteLength: 12,
  offsets: { "location.type": 0, "location.id": 4, flags: 8 },
} as const satisfies StructLayout;

/*
 * CUmemPoolProps, 88 bytes
 *   0           4             8               12            16
 *   | allocType | handleTypes | location.type | location.id |
 *   16                        24        32
 *   | win32SecurityAttributes | maxSize | ...
 *   From byte 32: usage and reserved bytes. All of them are 0 here.
 */
const memPoolProps = {
  byteLength: 88,
  offsets: {
    allocType: 0,
    handleTypes: 4,
    "location.type": 8,
    "location.id": 12,
    win32SecurityAttributes: 16,
    maxSize: 24,
    usage: 32,
  },
} as const satisfies StructLayout;

/*
 * CUstreamBatchMemOpParams, a union of 48 bytes; waits and writes of 64 bits lie alike
 *   0            8          16        24       28    32                       40
 *   | operation  | address  | value   | flags  |     | alias, the driver's own |
 */
const batchMemOp = {
  byteLength: 48,
  offsets: { operation: 0, "waitValue.address": 8, "waitValue.value64": 16, "waitValue.flags": 24 },
} as const satisfies StructLayout;

/** By the C name of the struct. A test compares them with the header. */
export const structLayouts = {
  CUmemAllocationProp: allocationProp,
  CUmemAccessDesc: accessDesc,
  CUuuid: { byteLength: 16, offsets: { bytes: 0 } },
  CUmemPoolProps: memPoolProps,
  CUmemPoolPtrExportData: { byteLength: 64, offsets: { reserved: 0 } },
  CUipcMemHandle: { byteLength: 64, offsets: { reserved: 0 } },
  CUipcEventHandle: { byteLength: 64, offsets: { reserved: 0 } },
  CUstreamBatchMemOpParams: batchMemOp,
} as const satisfies Record<string, StructLayout>;

/** Where memory lies. `id` is a device, or a NUMA node of the machine. */
export interface Location {
  readonly type: number;
  readonly id: number;
}

export function deviceLocation(device: number): Location {
  return { type: cuValue.CU_MEM_LOCATION_TYPE_DEVICE, id: device };
}

/** Encodes a request for pinned memory that can be exported as a file descriptor. */
export function encodeAllocationProp(location: Location): Uint8Array {
  const bytes = new Uint8Array(allocationProp.byteLength);
  const view = new DataView(bytes.buffer);
  const { offsets } = allocationProp;
  view.setInt32(offsets.type, cuValue.CU_MEM_ALLOCATION_TYPE_PINNED, true);
  view.setInt32(
    offsets.requestedHandleTypes,
    cuValue.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
    true,
  );
  view.setInt32(offsets["location.type"], location.type, true);
  view.setInt32(offsets["location.id"], location.id, true);
  return bytes;
}

export interface AllocationProp {
  readonly type: number;
  readonly locationType: number;
  readonly locationId: number;
}

export function decodeAllocationProp(bytes: Uint8Array): AllocationProp {
  const view = new DataView(bytes.buffer, bytes.byteOffset, allocationProp.byteLength);
  const { offsets } = allocationProp;
  return {
    type: view.getInt32(offsets.type, true),
    locationType: view.getInt32(offsets["location.type"], true),
    locationId: view.getInt32(offsets["location.id"], true),
  };
}

/**
 * Encodes the access of devices, or of the CPU at a NUMA node, to mapped memory.
 * @param flags one of CU_MEM_ACCESS_FLAGS_*
 */
export function encodeAccessDescs(locations: readonly Location[], flags: number): Uint8Array {
  const bytes = new Uint8Array(accessDesc.byteLength * locations.length);
  const view = new DataView(bytes.buffer);
  const { offsets, byteLength } = accessDesc;
  locations.forEach((location, i) => {
    view.setInt32(i * byteLength + offsets["location.type"], location.type, true);
    view.setInt32(i * byteLength + offsets["location.id"], location.id, true);
    view.setInt32(i * byteLength + offsets.flags, flags, true);
  });
  return bytes;
}

/** Encodes a pool of pinned memory. @param handleType one of CU_MEM_HANDLE_TYPE_* */
export function encodeMemPoolProps(
  location: Location,
  handleType: number,
  maxBytes: number,
): Uint8Array {
  const bytes = new Uint8Array(memPoolProps.byteLength);
  const view = new DataView(bytes.buffer);
  const { offsets } = memPoolProps;
  view.setInt32(offsets.allocType, cuValue.CU_MEM_ALLOCATION_TYPE_PINNED, true);
  view.setInt32(offsets.handleTypes, handleType, true);
  view.setInt32(offsets["location.type"], location.type, true);
  view.setInt32(offsets["location.id"], location.id, true);
  view.setBigUint64(offsets.maxSize, BigInt(maxBytes), true);
  return bytes;
}

export interface BatchMemOp {
  /** CU_STREAM_MEM_OP_WAIT_VALUE_64 or CU_STREAM_MEM_OP_WRITE_VALUE_64. */
  readonly operation: number;
  readonly address: bigint;
  readonly value: bigint;
  readonly flags: number;
}

/** The driver's limit of operations in one call. */
const BATCH_MAX = 255;
let batchMemory: DataView<ArrayBuffer> | undefined;

/**
 * Encodes at most 255 operations. Every call returns the same memory, so use it before the next
 * call. New memory for each batch would cost more than the driver's call.
 */
export function encodeBatchMemOps(operations: readonly BatchMemOp[]): Uint8Array {
  const { offsets, byteLength } = batchMemOp;
  batchMemory ??= new DataView(new ArrayBuffer(byteLength * BATCH_MAX));
  let start = 0;
  for (const { operation, address, value, flags } of operations) {
    batchMemory.setInt32(start + offsets.operation, operation, true);
    batchMemory.setBigUint64(start + offsets["waitValue.address"], address, true);
    batchMemory.setBigUint64(start + offsets["waitValue.value64"], BigInt.asUintN(64, value), true);
    batchMemory.setInt32(start + offsets["waitValue.flags"], flags, true);
    start += byteLength;
  }
  return new Uint8Array(batchMemory.buffer, 0, start);
}
