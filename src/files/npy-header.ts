/**
 * Reads and writes the header of .npy files: dtype, shape, and where the data begins.
 * https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html
 *
 *     bytes 0-5   \x93NUMPY
 *     bytes 6-7   version: 1.0, 2.0 or 3.0
 *     bytes 8-9   length of the header text, little-endian; bytes 8-11 from version 2.0 on
 *     then        the text: a Python dict of descr, fortran_order and shape, padded with spaces,
 *                 and a line break; latin-1, or UTF-8 in version 3.0
 *     then        the elements, in C or Fortran order
 *
 * `descr` is a byte order, a letter and a size. `<` is little-endian, and `|` is for single bytes.
 * https://numpy.org/doc/stable/reference/arrays.interface.html
 */

import type { FileHandle } from "node:fs/promises";
import { type DType, dtypeFacts } from "../array/dtype.js";
import { arrayByteLength, contiguousStrides, fortranStrides } from "../array/layout.js";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { invalidFile, unsupportedDType } from "./file-errors.js";
import { LiteralError, type PythonLiteral, parsePythonLiteral } from "./python-literal.js";
import { type FileFacts, fileByteLength, readPiece } from "./source-file.js";

export interface NpyHeader {
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** In elements. In Fortran order if the file says so. */
  readonly strides: readonly number[];
  readonly fortranOrder: boolean;
  /** The byte of the file where the elements begin. */
  readonly dataByteOffset: number;
  /** Bytes of the elements: the rest of the file. */
  readonly dataByteLength: number;
}

export const npyMagic: readonly number[] = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59];

/**
 * Bytes before the text in version 2.0 and later. Version 1.0 has two fewer, and its text is never
 * that short.
 */
export const NPY_PREAMBLE_BYTES = 12;

/** The data begins at a multiple of this, in numpy's files and ours. */
const DATA_ALIGNMENT = 64;

/**
 * Reads and checks the header of an open .npy file. The caller keeps the handle.
 * @param fileName for messages
 * @throws CudaIpcError `INVALID_FILE` if numpy would not have written it, for example if the file
 * has another size
 * @throws CudaIpcError `UNSUPPORTED_DTYPE` for big-endian, structured, object, text and date dtypes
 */
export async function readNpyHeader(file: FileHandle, fileName: string): Promise<NpyHeader> {
  const byteLength = await fileByteLength(file, fileName);
  const headerBytesMax = Math.min(byteLength, NPY_PREAMBLE_BYTES + limits.npyHeaderBytesMax);
  const start = await readPiece(file, { fileName, byteOffset: 0, byteLength: headerBytesMax });
  return parseNpyHeader(start, { fileName, byteLength });
}

/** Like `readNpyHeader`, from the first bytes of a file. They must contain the whole header. */
export function parseNpyHeader(start: Uint8Array, { fileName, byteLength }: FileFacts): NpyHeader {
  const header = parseNpyStart(start, fileName);
  const found = byteLength - header.dataByteOffset;
  if (found === header.dataByteLength) return header;
  throw invalidFile(
    fileName,
    `header claims ${header.dataByteLength} bytes of data, file has ${found}`,
  );
}

/**
 * The length of a header, from at least its first `NPY_PREAMBLE_BYTES` bytes. For streams of
 * arrays, which have no file size.
 * @throws INVALID_FILE
 */
export function npyHeaderByteLength(start: Uint8Array, fileName: string): number {
  checkMagic(start, fileName);
  const { textOffset, textBytes } = textPlace(start, fileName);
  return textOffset + textBytes;
}

/** Like `parseNpyHeader`, but does not check the size of the data. */
export function parseNpyStart(start: Uint8Array, fileName: string): NpyHeader {
  checkMagic(start, fileName);
  const { text, dataByteOffset } = headerText(start, fileName);
  const dict = headerDict(text, fileName);
  const dtype = headerDType(dict.get("descr"), fileName);
  const fortranOrder = dict.get("fortran_order");
  if (typeof fortranOrder !== "boolean")
    throw invalidFile(fileName, "fortran_order is neither True nor False");
  const shape = headerShape(dict.get("shape"), fileName);

  let dataByteLength: number;
  try {
    dataByteLength = arrayByteLength(dtype, shape);
  } catch (error) {
    throw invalidFile(fileName, messageOf(error), error);
  }
  const strides = fortranOrder ? fortranStrides(shape) : contiguousStrides(shape);
  return { dtype, shape, strides, fortranOrder, dataByteOffset, dataByteLength };
}

/**
 * The bytes of an .npy file before its data, as numpy writes them. Their length is a multiple of
 * 64.
 * @throws CudaIpcError `UNSUPPORTED_DTYPE` for bfloat16 and float8; RangeError for an invalid shape
 */
export function encodeNpyHeader(
  dtype: DType,
  shape: readonly number[],
  options: { readonly fortranOrder?: boolean | undefined } = {},
): Uint8Array {
  dtypeFacts(dtype);
  const fortranOrder = options.fortranOrder ?? false;
  arrayByteLength(dtype, shape);
  const tuple = shape.length === 1 ? `(${shape[0]},)` : `(${shape.join(", ")})`;
  const order = fortranOrder ? "True" : "False";
  const dict = `{'descr': '${npyDescr(dtype)}', 'fortran_order': ${order}, 'shape': ${tuple}, }`;
  // Like numpy, leave 21 digits for the axis that grows when data is appended.
  const growing = fortranOrder ? shape.at(-1) : shape[0];
  const room = growing === undefined ? 0 : 21 - String(growing).length;
  const unpadded = 10 + dict.length + room + 1;
  // Like numpy, add 64 spaces where none are needed.
  const padding = DATA_ALIGNMENT - (unpadded % DATA_ALIGNMENT);

  const text = `${dict}${" ".repeat(room + padding)}\n`;
  const bytes = new Uint8Array(10 + text.length);
  bytes.set([...npyMagic, 1, 0, text.length % 256, Math.floor(text.length / 256)]);
  new TextEncoder().encodeInto(text, bytes.subarray(10));
  return bytes;
}

function checkMagic(start: Uint8Array, fileName: string): void {
  if (npyMagic.some((byte, i) => start[i] !== byte))
    throw invalidFile(fileName, "it does not begin as an .npy file");
}

/** The offset of the text, and the length that the header claims for it. */
function textPlace(
  start: Uint8Array,
  fileName: string,
): { major: number; textOffset: number; textBytes: number } {
  const [major, minor] = [start[6], start[7]];
  if (major === undefined || minor === undefined || major < 1 || major > 3 || minor !== 0) {
    throw invalidFile(fileName, `format version ${major}.${minor}, wanted 1.0, 2.0 or 3.0`);
  }
  const textOffset = major === 1 ? 10 : NPY_PREAMBLE_BYTES;
  if (start.byteLength < textOffset)
    throw invalidFile(fileName, "the file ends before the length of its header");
  const view = new DataView(start.buffer, start.byteOffset, start.byteLength);
  const textBytes = major === 1 ? view.getUint16(8, true) : view.getUint32(8, true);
  if (textBytes > limits.npyHeaderBytesMax) {
    throw invalidFile(
      fileName,
      `header claims to be ${textBytes} bytes, the limit is ${limits.npyHeaderBytesMax}`,
    );
  }
  return { major, textOffset, textBytes };
}

function headerText(start: Uint8Array, fileName: string): { text: string; dataByteOffset: number } {
  const { major, textOffset, textBytes } = textPlace(start, fileName);
  const dataByteOffset = textOffset + textBytes;
  if (dataByteOffset > start.byteLength) {
    throw invalidFile(
      fileName,
      `header claims to end at byte ${dataByteOffset}, file has ${start.byteLength}`,
    );
  }
  const text = start.subarray(textOffset, dataByteOffset);
  try {
    const decoder = new TextDecoder(major === 3 ? "utf-8" : "latin1", {
      fatal: true,
      ignoreBOM: true,
    });
    return { text: decoder.decode(text), dataByteOffset };
  } catch (error) {
    throw invalidFile(fileName, "header is not valid UTF-8", error);
  }
}

function headerDict(text: string, fileName: string): ReadonlyMap<string, PythonLiteral> {
  let literal: PythonLiteral;
  try {
    literal = parsePythonLiteral(text);
  } catch (error) {
    if (error instanceof LiteralError)
      throw invalidFile(fileName, `header is no Python dict: ${error.message}`, error);
    throw error;
  }
  const dict =
    typeof literal === "object" && literal !== null && "dict" in literal ? literal.dict : undefined;
  const found = [...(dict?.keys() ?? [])].sort().join(", ");
  if (dict === undefined || found !== "descr, fortran_order, shape") {
    throw invalidFile(
      fileName,
      `header has keys "${found.slice(0, 200)}", wanted descr, fortran_order and shape`,
    );
  }
  return dict;
}

function headerDType(descr: PythonLiteral | undefined, fileName: string): DType {
  if (typeof descr === "string") return dtypeOfNpyDescr(descr, fileName);
  if (typeof descr === "object" && descr !== null)
    throw unsupportedDType(fileName, "it has a structured dtype");
  throw invalidFile(fileName, "descr is no dtype");
}

function headerShape(literal: PythonLiteral | undefined, fileName: string): number[] {
  if (typeof literal !== "object" || literal === null || !("tuple" in literal)) {
    throw invalidFile(fileName, "shape is no tuple");
  }
  return literal.tuple.map((size) => {
    if (typeof size !== "bigint" || size < 0n)
      throw invalidFile(fileName, "shape holds something other than sizes");
    return Number(size);
  });
}

/** Undefined for dtypes that numpy does not have. */
const descrs: Readonly<Record<DType, string | undefined>> = {
  bool: "|b1",
  uint8: "|u1",
  uint16: "<u2",
  uint32: "<u4",
  uint64: "<u8",
  int8: "|i1",
  int16: "<i2",
  int32: "<i4",
  int64: "<i8",
  float8_e4m3fn: undefined,
  float8_e5m2: undefined,
  float16: "<f2",
  bfloat16: undefined,
  float32: "<f4",
  float64: "<f8",
  complex64: "<c8",
  complex128: "<c16",
};

const dtypesByLetters: ReadonlyMap<string, DType> = new Map(
  Object.entries(descrs).flatMap(([dtype, descr]) =>
    descr === undefined ? [] : [[descr.slice(1), dtype as DType]],
  ),
);

/** @throws CudaIpcError `UNSUPPORTED_DTYPE` for bfloat16 and float8, which numpy does not have */
function npyDescr(dtype: DType): string {
  const descr = descrs[dtype];
  if (descr === undefined) {
    throw new CudaIpcError(
      "UNSUPPORTED_DTYPE",
      `Cannot write ${dtype} as .npy: numpy has no such dtype, use a .safetensors file`,
    );
  }
  return descr;
}

/** @throws CudaIpcError `UNSUPPORTED_DTYPE`, with the reason */
function dtypeOfNpyDescr(descr: string, fileName: string): DType {
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
  if (letters.startsWith("O"))
    throw unsupportedDType(fileName, `${shown} is pickled Python objects`);
  throw unsupportedDType(
    fileName,
    `${shown}, wanted one of ${Object.values(descrs).filter(Boolean).join(", ")}`,
  );
}
