/** The dtype names of .safetensors files, in the order by which the reference implementation sorts arrays. */

import type { DType } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";

/** Later ones come first in a file, so that each array is aligned when the first one is. */
const namesInOrder: readonly (readonly [string, DType])[] = [
  ["BOOL", "bool"],
  ["U8", "uint8"],
  ["I8", "int8"],
  ["F8_E5M2", "float8_e5m2"],
  ["F8_E4M3", "float8_e4m3fn"],
  ["I16", "int16"],
  ["U16", "uint16"],
  ["F16", "float16"],
  ["BF16", "bfloat16"],
  ["I32", "int32"],
  ["U32", "uint32"],
  ["F32", "float32"],
  ["C64", "complex64"],
  ["F64", "float64"],
  ["I64", "int64"],
  ["U64", "uint64"],
];

const dtypesByName: ReadonlyMap<string, DType> = new Map(namesInOrder);
const entriesByDType = new Map(namesInOrder.map(([name, dtype], rank) => [dtype, { name, rank }]));

export const safetensorsDTypeNames: readonly string[] = namesInOrder.map(([name]) => name);

/** `undefined` for a name that is not supported here. */
export function dtypeOfSafetensorsName(name: string): DType | undefined {
  return dtypesByName.get(name);
}

/** @throws CudaIpcError `UNSUPPORTED_DTYPE` for complex128, which the format does not have */
export function safetensorsDType(dtype: DType): { readonly name: string; readonly rank: number } {
  const entry = entriesByDType.get(dtype);
  if (entry === undefined) {
    throw new CudaIpcError("UNSUPPORTED_DTYPE", `Cannot write ${dtype} as .safetensors: the format has no such dtype`);
  }
  return entry;
}
