/**
 * libcuda: streams, copies and fills on them, and waits for and writes of memory words. Symbols and
 * signatures, no logic. WHY not the `_ptsz` variants: they take the NULL stream for the calling
 * thread's own.
 */
import type { PointerArgument } from "./koffi.js";
import { cuda, type Handle, type Status, type SymbolTable } from "./libcuda-signature.js";

export interface StreamFunctions {
  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__STREAM.html
  cuStreamCreate(stream: BigUint64Array, flags: number): Status;
  cuStreamDestroy(stream: Handle): Status;
  cuStreamQuery(stream: Handle): Status;
  cuStreamSynchronize(stream: Handle): Status;

  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEM.html
  cuMemcpyHtoDAsync(to: bigint, from: PointerArgument, byteLength: number, stream: Handle): Status;
  cuMemcpyDtoHAsync(to: PointerArgument, from: bigint, byteLength: number, stream: Handle): Status;
  cuMemcpyDtoDAsync(to: bigint, from: bigint, byteLength: number, stream: Handle): Status;
  cuMemsetD8Async(to: bigint, value: number, count: number, stream: Handle): Status;
  cuMemsetD16Async(to: bigint, value: number, count: number, stream: Handle): Status;
  cuMemsetD32Async(to: bigint, value: number, count: number, stream: Handle): Status;

  // https://docs.nvidia.com/cuda/cuda-driver-api/group__CUDA__MEMOP.html
  // `_v2` works everywhere since CUDA 11.7. The first versions need a module parameter that no
  // system sets.
  cuStreamWaitValue64(
    stream: Handle,
    pointer: number | bigint,
    value: number | bigint,
    flags: number,
  ): Status;
  cuStreamWriteValue64(
    stream: Handle,
    pointer: number | bigint,
    value: number | bigint,
    flags: number,
  ): Status;
  cuStreamBatchMemOp(stream: Handle, count: number, operations: Uint8Array, flags: 0): Status;
}

export const streamFunctions: SymbolTable<StreamFunctions> = {
  cuStreamCreate: cuda("cuStreamCreate", "void*", "uint"),
  cuStreamDestroy: cuda("cuStreamDestroy_v2", "void*"),
  cuStreamQuery: cuda("cuStreamQuery", "void*"),
  cuStreamSynchronize: cuda("cuStreamSynchronize", "void*"),
  cuMemcpyHtoDAsync: cuda("cuMemcpyHtoDAsync_v2", "uint64", "void*", "size_t", "void*"),
  cuMemcpyDtoHAsync: cuda("cuMemcpyDtoHAsync_v2", "void*", "uint64", "size_t", "void*"),
  cuMemcpyDtoDAsync: cuda("cuMemcpyDtoDAsync_v2", "uint64", "uint64", "size_t", "void*"),
  cuMemsetD8Async: cuda("cuMemsetD8Async", "uint64", "uint8", "size_t", "void*"),
  cuMemsetD16Async: cuda("cuMemsetD16Async", "uint64", "uint16", "size_t", "void*"),
  cuMemsetD32Async: cuda("cuMemsetD32Async", "uint64", "uint", "size_t", "void*"),
  cuStreamWaitValue64: cuda("cuStreamWaitValue64_v2", "void*", "uint64", "uint64", "uint"),
  cuStreamWriteValue64: cuda("cuStreamWriteValue64_v2", "void*", "uint64", "uint64", "uint"),
  cuStreamBatchMemOp: cuda("cuStreamBatchMemOp_v2", "void*", "uint", "void*", "uint"),
};
