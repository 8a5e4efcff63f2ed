/**
 * libcuda: virtual memory management and host memory. Symbols and signatures, no logic.
 * The handle of an allocation is a 64-bit number, not a pointer.
 */
import type { Address, PointerArgument } from "./koffi.js";
import { cuda, type Status, type SymbolTable } from "./libcuda-signature.js";

/** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__VA.html */
export interface VirtualMemoryFunctions {
  cuMemAddressReserve(
    pointer: BigUint64Array,
    byteLength: number,
    alignment: 0,
    addressHint: bigint,
    flags: bigint,
  ): Status;
  cuMemAddressFree(pointer: bigint, byteLength: number): Status;
  cuMemCreate(
    handle: BigUint64Array,
    byteLength: number,
    properties: Uint8Array,
    flags: bigint,
  ): Status;
  cuMemRelease(handle: bigint): Status;
  cuMemMap(
    pointer: bigint,
    byteLength: number,
    byteOffset: 0,
    handle: bigint,
    flags: bigint,
  ): Status;
  cuMemUnmap(pointer: bigint, byteLength: number): Status;
  cuMemSetAccess(
    pointer: bigint,
    byteLength: number,
    descriptors: Uint8Array,
    count: number,
  ): Status;
  cuMemExportToShareableHandle(
    fd: Int32Array,
    handle: bigint,
    handleType: number,
    flags: bigint,
  ): Status;
  /** SAFETY: a POSIX descriptor is passed as the pointer itself, not by its address. */
  cuMemImportFromShareableHandle(
    handle: BigUint64Array,
    fdAsPointer: Address,
    handleType: number,
  ): Status;
  cuMemGetAllocationGranularity(
    byteLength: BigUint64Array,
    properties: Uint8Array,
    option: number,
  ): Status;
  cuMemGetAllocationPropertiesFromHandle(properties: Uint8Array, handle: bigint): Status;
}

/** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html */
export interface HostMemoryFunctions {
  cuMemHostAlloc(pointer: BigUint64Array, byteLength: number, flags: number): Status;
  cuMemFreeHost(pointer: PointerArgument): Status;
  cuMemHostRegister(pointer: PointerArgument, byteLength: number, flags: number): Status;
  cuMemHostUnregister(pointer: PointerArgument): Status;
  cuMemHostGetDevicePointer(
    devicePointer: BigUint64Array,
    pointer: PointerArgument,
    flags: 0,
  ): Status;
}

export const virtualMemoryFunctions: SymbolTable<VirtualMemoryFunctions> = {
  cuMemAddressReserve: cuda("cuMemAddressReserve", "void*", "size_t", "size_t", "uint64", "uint64"),
  cuMemAddressFree: cuda("cuMemAddressFree", "uint64", "size_t"),
  cuMemCreate: cuda("cuMemCreate", "void*", "size_t", "void*", "uint64"),
  cuMemRelease: cuda("cuMemRelease", "uint64"),
  cuMemMap: cuda("cuMemMap", "uint64", "size_t", "size_t", "uint64", "uint64"),
  cuMemUnmap: cuda("cuMemUnmap", "uint64", "size_t"),
  cuMemSetAccess: cuda("cuMemSetAccess", "uint64", "size_t", "void*", "size_t"),
  cuMemExportToShareableHandle: cuda(
    "cuMemExportToShareableHandle",
    "void*",
    "uint64",
    "int",
    "uint64",
  ),
  cuMemImportFromShareableHandle: cuda("cuMemImportFromShareableHandle", "void*", "void*", "int"),
  cuMemGetAllocationGranularity: cuda("cuMemGetAllocationGranularity", "void*", "void*", "int"),
  cuMemGetAllocationPropertiesFromHandle: cuda(
    "cuMemGetAllocationPropertiesFromHandle",
    "void*",
    "uint64",
  ),
};

export const hostMemoryFunctions: SymbolTable<HostMemoryFunctions> = {
  cuMemHostAlloc: cuda("cuMemHostAlloc", "void*", "size_t", "uint"),
  cuMemFreeHost: cuda("cuMemFreeHost", "void*"),
  cuMemHostRegister: cuda("cuMemHostRegister_v2", "void*", "size_t", "uint"),
  cuMemHostUnregister: cuda("cuMemHostUnregister", "void*"),
  cuMemHostGetDevicePointer: cuda("cuMemHostGetDevicePointer_v2", "void*", "void*", "uint"),
};
