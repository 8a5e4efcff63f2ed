/**
 * The `descr` of .npy files to and from dtypes: kind letter and bytes, `<` for little-endian, `|` where that is moot.
 * https://numpy.org/doc/stable/reference/arrays.interface.html
 */

import type { DType } from "../array/dtype.js";
import { CudaIpcError } from "../base/errors.js";
import { unsupportedDType } from "./file-errors.js";

const descrs: Partial<Record<DType, string>> = {
  bool: "|b1",
  uint8: "|u1",
  uint16: "<u2",
  uint32: "<u4",
  uint64: "<u8",
  int8: "|i1",
  int16: "<i2",
  int32: "<i4",
  int64: "<i8",
  float16: "<f2",
  float32: "<f4",
  float64: "<f8",
  complex64: "<c8",
  complex128: "<c16",
};

const dtypesByLetters: ReadonlyMap<string, DType> = new Map(
  Object.entries(descrs).map(([dtype, descr]) => [descr.slice(1), dtype as DType]),
);

/** @throws CudaIpcError `UNSUPPORTED_DTYPE` for dtypes that numpy has no name for: bfloat16 and the two float8 */
export function npyDescr(dtype: DType): string {
  const descr = descrs[dtype];
  if (descr === undefined) {
    throw new CudaIpcError(
      "UNSUPPORTED_DTYPE",
      `Cannot write ${dtype} as .npy: numpy has no such dtype, use a .safetensors file`,
    );
  }
  return descr;
}

/** @throws CudaIpcError `UNSUPPORTED_DTYPE`, saying why */
export function dtypeOfNpyDescr(descr: string, fileName: string): DType {
  const shown = `dtype ${JSON.stringify(descr.slice(0, 64))}`;
  const [, order = "", letters = ""] = /^([<>|=])(.*)$/s.exec(descr) ?? [];
  const dtype = dtypesByLetters.get(letters);
  const singleByte = letters.endsWith("1") && letters.length === 2;
  if (dtype !== undefined && (order === "<" || (singleByte && order === "|"))) return dtype;
  if (dtype !== undefined && order === ">" && !singleByte) {
    throw unsupportedDType(fileName, `${shown} is big-endian; save it as ${npyDescr(dtype)}`);
  }
  if (letters.startsWith("V") || letters === "f1") {
    throw unsupportedDType(
      fileName,
      `${shown} does not say which type it is; use .safetensors for bfloat16 and float8`,
    );
  }
  if (letters.startsWith("O")) throw unsupportedDType(fileName, `${shown} is pickled Python objects`);
  throw unsupportedDType(fileName, `${shown}, wanted one of ${Object.values(descrs).join(", ")}`);
}
