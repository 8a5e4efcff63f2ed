/** The types of the symbol tables of libcuda: C signatures and handles. */

/** Parameter types of libcuda, by their names in koffi. All results are CUresult, an `int`. */
export type CudaParameter =
  | "int"
  | "uint"
  | "uint8"
  | "uint16"
  | "uint64"
  | "size_t"
  | "void*"
  | "str"
  | "CUipcHandle";

export interface CudaSignature {
  /**
   * The symbol for the dynamic linker. The plain name is often an older function with another ABI.
   */
  readonly symbol: string;
  readonly parameters: readonly CudaParameter[];
  /** The version of CUDA that brought the function, if its users can do without it. */
  readonly since?: string;
}

export type SymbolTable<Functions> = { readonly [Name in keyof Functions]-?: CudaSignature };

export function cuda(symbol: string, ...parameters: CudaParameter[]): CudaSignature {
  return { symbol, parameters };
}

/** A function that is undefined if the driver is older than this version of CUDA. */
export function cudaSince(
  since: string,
  symbol: string,
  ...parameters: CudaParameter[]
): CudaSignature {
  return { symbol, parameters, since };
}

/** CUresult: 0 is success, `cuResult` has the others. */
export type Status = number;
/** CUdevice. It is not the ordinal, although both have been equal so far. */
export type DeviceHandle = number;
/** CUcontext, CUstream, CUevent, CUmodule, CUfunction, CUmemoryPool: opaque pointers. */
export type Handle = bigint;
