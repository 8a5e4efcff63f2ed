/** libcuda: memory pools and allocation in stream order. Symbols and signatures, no logic. */
import type { Address, PointerArgument } from "./koffi.js";
import { cuda, type Handle, type Status, type SymbolTable } from "./libcuda-signature.js";

/** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MALLOC__ASYNC.html */
export interface PoolFunctions {
  cuMemPoolCreate(pool: BigUint64Array, properties: Uint8Array): Status;
  cuMemPoolDestroy(pool: Handle): Status;
  cuMemPoolSetAccess(pool: Handle, descriptors: Uint8Array, count: number): Status;
  /** @param location the type and id of a CUmemLocation */
  cuMemPoolGetAccess(flags: Int32Array, pool: Handle, location: Int32Array): Status;
  cuMemPoolSetAttribute(pool: Handle, attribute: number, value: PointerArgument): Status;
  cuMemPoolGetAttribute(pool: Handle, attribute: number, value: PointerArgument): Status;
  cuMemPoolTrimTo(pool: Handle, byteLength: number): Status;
  cuMemAllocFromPoolAsync(
    pointer: BigUint64Array,
    byteLength: number,
    pool: Handle,
    stream: Handle,
  ): Status;
  cuMemFreeAsync(pointer: bigint, stream: Handle): Status;
  cuMemPoolExportToShareableHandle(
    fd: Int32Array,
    pool: Handle,
    handleType: number,
    flags: bigint,
  ): Status;
  /** SAFETY: a POSIX descriptor is passed as the pointer itself, not by its address. */
  cuMemPoolImportFromShareableHandle(
    pool: BigUint64Array,
    fdAsPointer: Address,
    handleType: number,
    flags: bigint,
  ): Status;
  cuMemPoolExportPointer(data: Uint8Array, pointer: bigint): Status;
  cuMemPoolImportPointer(pointer: BigUint64Array, pool: Handle, data: Uint8Array): Status;
}

export const poolFunctions: SymbolTable<PoolFunctions> = {
  cuMemPoolCreate: cuda("cuMemPoolCreate", "void*", "void*"),
  cuMemPoolDestroy: cuda("cuMemPoolDestroy", "void*"),
  cuMemPoolSetAccess: cuda("cuMemPoolSetAccess", "void*", "void*", "size_t"),
  cuMemPoolGetAccess: cuda("cuMemPoolGetAccess", "void*", "void*", "void*"),
  cuMemPoolSetAttribute: cuda("cuMemPoolSetAttribute", "void*", "int", "void*"),
  cuMemPoolGetAttribute: cuda("cuMemPoolGetAttribute", "void*", "int", "void*"),
  cuMemPoolTrimTo: cuda("cuMemPoolTrimTo", "void*", "size_t"),
  cuMemAllocFromPoolAsync: cuda("cuMemAllocFromPoolAsync", "void*", "size_t", "void*", "void*"),
  cuMemFreeAsync: cuda("cuMemFreeAsync", "uint64", "void*"),
  cuMemPoolExportToShareableHandle: cuda(
    "cuMemPoolExportToShareableHandle",
    "void*",
    "void*",
    "int",
    "uint64",
  ),
  cuMemPoolImportFromShareableHandle: cuda(
    "cuMemPoolImportFromShareableHandle",
    "void*",
    "void*",
    "int",
    "uint64",
  ),
  cuMemPoolExportPointer: cuda("cuMemPoolExportPointer", "void*", "uint64"),
  cuMemPoolImportPointer: cuda("cuMemPoolImportPointer", "void*", "void*", "void*"),
};
