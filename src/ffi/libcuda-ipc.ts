/**
 * libcuda: events, memory of the legacy kind, and the handles of both. Symbols and signatures, no
 * logic. SAFETY: the calls that open a handle take it by value, as a struct of 64 bytes.
 */
import type { PointerArgument } from "./koffi.js";
import { cuda, type Handle, type Status, type SymbolTable } from "./libcuda-signature.js";

/** A handle, as a struct for koffi. */
export interface IpcHandleStruct {
  readonly reserved: Uint8Array;
}

export interface EventFunctions {
  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__EVENT.html
  cuEventCreate(event: BigUint64Array, flags: number): Status;
  cuEventDestroy(event: Handle): Status;
  cuEventRecord(event: Handle, stream: Handle): Status;
  cuEventQuery(event: Handle): Status;
  /** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html */
  cuStreamWaitEvent(stream: Handle, event: Handle, flags: 0): Status;

  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
  cuIpcGetEventHandle(handle: Uint8Array, event: Handle): Status;
  cuIpcOpenEventHandle(event: BigUint64Array, handle: IpcHandleStruct): Status;
}

/** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html */
export interface LegacyMemoryFunctions {
  cuMemAlloc(pointer: BigUint64Array, byteLength: number): Status;
  cuMemFree(pointer: bigint): Status;
  cuMemGetAddressRange(base: BigUint64Array, byteLength: BigUint64Array, pointer: bigint): Status;
  /** https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__UNIFIED.html */
  cuPointerGetAttribute(value: PointerArgument, attribute: number, pointer: bigint): Status;
  cuIpcGetMemHandle(handle: Uint8Array, pointer: bigint): Status;
  /** `_v2`, because the first version lets the driver change the handle. */
  cuIpcOpenMemHandle(pointer: BigUint64Array, handle: IpcHandleStruct, flags: number): Status;
  cuIpcCloseMemHandle(pointer: bigint): Status;
}

export const eventFunctions: SymbolTable<EventFunctions> = {
  cuEventCreate: cuda("cuEventCreate", "void*", "uint"),
  cuEventDestroy: cuda("cuEventDestroy_v2", "void*"),
  cuEventRecord: cuda("cuEventRecord", "void*", "void*"),
  cuEventQuery: cuda("cuEventQuery", "void*"),
  cuStreamWaitEvent: cuda("cuStreamWaitEvent", "void*", "void*", "uint"),
  cuIpcGetEventHandle: cuda("cuIpcGetEventHandle", "void*", "void*"),
  cuIpcOpenEventHandle: cuda("cuIpcOpenEventHandle", "void*", "CUipcHandle"),
};

export const legacyMemoryFunctions: SymbolTable<LegacyMemoryFunctions> = {
  cuMemAlloc: cuda("cuMemAlloc_v2", "void*", "size_t"),
  cuMemFree: cuda("cuMemFree_v2", "uint64"),
  cuMemGetAddressRange: cuda("cuMemGetAddressRange_v2", "void*", "void*", "uint64"),
  cuPointerGetAttribute: cuda("cuPointerGetAttribute", "void*", "int", "uint64"),
  cuIpcGetMemHandle: cuda("cuIpcGetMemHandle", "void*", "uint64"),
  cuIpcOpenMemHandle: cuda("cuIpcOpenMemHandle_v2", "void*", "CUipcHandle", "uint"),
  cuIpcCloseMemHandle: cuda("cuIpcCloseMemHandle", "uint64"),
};
