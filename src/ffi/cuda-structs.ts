/**
 * The structs of cuda.h that cross the boundary, as bytes. Little-endian, as on every machine that libcuda exists for.
 * test/unit/ffi/cuda-header.test.ts compares every size and offset with a real header.
 */
import { cuValue } from "./cuda-constants.js";

export interface StructLayout {
  readonly byteLength: number;
  readonly offsets: Readonly<Record<string, number>>;
}

/*
 * CUmemAllocationProp, 32 bytes
 *   0        4                      8                12             16                     24
 *   | type   | requestedHandleTypes | location.type  | location.id  | win32HandleMetaData  | allocFlags   |
 *   allocFlags: compressionType u8, gpuDirectRDMACapable u8, usage u16, 4 bytes reserved; all 0 here
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

/** By the C name of the struct; what the header is compared with. */
export const structLayouts = {
  CUmemAllocationProp: allocationProp,
  CUmemAccessDesc: accessDesc,
  CUuuid: { byteLength: 16, offsets: { bytes: 0 } },
} as const satisfies Record<string, StructLayout>;

/** Pinned memory of one device that can be exported as a file descriptor. */
export function encodeAllocationProp(device: number): Uint8Array {
  const bytes = new Uint8Array(allocationProp.byteLength);
  const view = new DataView(bytes.buffer);
  const { offsets } = allocationProp;
  view.setInt32(offsets.type, cuValue.CU_MEM_ALLOCATION_TYPE_PINNED, true);
  view.setInt32(offsets.requestedHandleTypes, cuValue.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, true);
  view.setInt32(offsets["location.type"], cuValue.CU_MEM_LOCATION_TYPE_DEVICE, true);
  view.setInt32(offsets["location.id"], device, true);
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

/** Access of one device to mapped memory; `flags` is one of CU_MEM_ACCESS_FLAGS_*. */
export function encodeAccessDesc(device: number, flags: number): Uint8Array {
  const bytes = new Uint8Array(accessDesc.byteLength);
  const view = new DataView(bytes.buffer);
  const { offsets } = accessDesc;
  view.setInt32(offsets["location.type"], cuValue.CU_MEM_LOCATION_TYPE_DEVICE, true);
  view.setInt32(offsets["location.id"], device, true);
  view.setInt32(offsets.flags, flags, true);
  return bytes;
}
