/** How the symbol tables of libcuda are written: a C signature, with the symbol where it differs from the plain name. */

/** The types that libcuda's parameters have, by their names in koffi. All results are CUresult, an `int`. */
export type CudaParameter = "int" | "uint" | "uint8" | "uint16" | "uint64" | "size_t" | "void*" | "str" | "CUipcHandle";

export interface CudaSignature {
  /** What the dynamic linker is asked for. WHY: for many names the plain symbol is an older function with another ABI. */
  readonly symbol: string;
  readonly parameters: readonly CudaParameter[];
  /** Where older drivers lack it: the version of CUDA that brought it. What uses it does without there. */
  readonly since?: string;
}

export type SymbolTable<Functions> = { readonly [Name in keyof Functions]-?: CudaSignature };

export function cuda(symbol: string, ...parameters: CudaParameter[]): CudaSignature {
  return { symbol, parameters };
}

/** A function that is left out where the driver is older than this version of CUDA. */
export function cudaSince(since: string, symbol: string, ...parameters: CudaParameter[]): CudaSignature {
  return { symbol, parameters, since };
}

/** CUresult. 0 is success; what else there is says `cuResult`. */
export type Status = number;
/** CUdevice: not the ordinal, though it has been equal to it so far. */
export type DeviceHandle = number;
/** CUcontext, CUstream, CUevent, CUmodule, CUfunction, CUmemoryPool: pointers that only the driver looks behind. */
export type Handle = bigint;
