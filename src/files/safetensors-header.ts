/**
 * Reads the header of .safetensors files. It checks as strictly as the reference implementation,
 * and also refuses duplicate names. https://github.com/huggingface/safetensors#format
 *
 *     bytes 0-7   length N of the header text, little-endian
 *     then        N bytes of JSON: name -> { dtype, shape, data_offsets: [begin, end] },
 *                 optionally "__metadata__", and spaces
 *     then        the data; offsets count from here and cover all of it without gap or overlap
 */

import type { FileHandle } from "node:fs/promises";
import type { DType } from "../array/dtype.js";
import { arrayByteLength } from "../array/layout.js";
import { CudaIpcError, messageOf } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { invalidFile, unsupportedDType } from "./file-errors.js";
import { isOpaque, type OpaqueType, opaqueByteLength, shapeInBytes } from "./opaque-dtypes.js";
import { type FileFacts, fileByteLength, readPiece } from "./source-file.js";
import { JsonError, parseStrictJson, type StrictJson } from "./strict-json.js";

export interface SafetensorsArray {
  readonly name: string;
  readonly dtype: DType;
  readonly shape: readonly number[];
  /** From the start of the data. The format does not promise that it is aligned to the dtype. */
  readonly byteOffset: number;
  readonly byteLength: number;
  /** What it is in the file, if its bytes travel as they are. */
  readonly opaque?: OpaqueType | undefined;
}

export interface SafetensorsHeader {
  readonly metadata: ReadonlyMap<string, string>;
  /** In the order of their data. Names are unique. */
  readonly arrays: readonly SafetensorsArray[];
  /** The byte of the file where the data begins. */
  readonly dataByteOffset: number;
  /** Bytes of the data: the rest of the file. */
  readonly dataByteLength: number;
}

/** The one name in the header that is not an array. */
export const safetensorsMetadataName = "__metadata__";

export const safetensorsPrefixBytes = 8;

/**
 * In the order by which the reference implementation sorts arrays. Later ones come first in a file,
 * so each array is aligned if the first one is.
 */
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

const safetensorsDTypeNames: readonly string[] = namesInOrder.map(([name]) => name);

/** Undefined for an unsupported name. */
function dtypeOfSafetensorsName(name: string): DType | undefined {
  return dtypesByName.get(name);
}

/** @throws CudaIpcError `UNSUPPORTED_DTYPE` for complex128, which the format does not have */
export function safetensorsDType(dtype: DType): { readonly name: string; readonly rank: number } {
  const entry = entriesByDType.get(dtype);
  if (entry === undefined) {
    throw new CudaIpcError(
      "UNSUPPORTED_DTYPE",
      `Cannot write ${dtype} as .safetensors: the format has no such dtype`,
    );
  }
  return entry;
}

/**
 * Reads and checks the header of an open .safetensors file. The caller keeps the handle.
 * @param fileName for messages
 * @throws CudaIpcError `INVALID_FILE` if it breaks the format, `UNSUPPORTED_DTYPE` for an unknown
 * dtype
 */
export async function readSafetensorsHeader(
  file: FileHandle,
  fileName: string,
): Promise<SafetensorsHeader> {
  const byteLength = await fileByteLength(file, fileName);
  const prefix = await readPiece(file, {
    fileName,
    byteOffset: 0,
    byteLength: safetensorsPrefixBytes,
  });
  const textBytes = safetensorsTextBytes(prefix, { fileName, byteLength });
  const text = await readPiece(file, {
    fileName,
    byteOffset: safetensorsPrefixBytes,
    byteLength: textBytes,
  });
  if (text.byteLength < textBytes)
    throw invalidFile(fileName, "the file became shorter while it was read");
  return parseSafetensorsHeader(text, { fileName, byteLength });
}

/**
 * The length of the header text, from the first 8 bytes of a file.
 * @throws CudaIpcError `INVALID_FILE` if it is over the limit or past the end of the file
 */
export function safetensorsTextBytes(
  prefix: Uint8Array,
  { fileName, byteLength }: FileFacts,
): number {
  if (prefix.byteLength < safetensorsPrefixBytes) {
    throw invalidFile(
      fileName,
      `file has ${prefix.byteLength} bytes, a .safetensors file has at least 8`,
    );
  }
  const textBytes = new DataView(prefix.buffer, prefix.byteOffset).getBigUint64(0, true);
  const limit = limits.safetensorsHeaderBytesMax;
  if (textBytes > limit) {
    throw invalidFile(fileName, `header claims to be ${textBytes} bytes, the limit is ${limit}`);
  }
  if (Number(textBytes) > byteLength - safetensorsPrefixBytes) {
    throw invalidFile(fileName, `header claims to be ${textBytes} bytes, file has ${byteLength}`);
  }
  return Number(textBytes);
}

/** Like `readSafetensorsHeader`, from the header text alone. */
export function parseSafetensorsHeader(
  text: Uint8Array,
  { fileName, byteLength }: FileFacts,
): SafetensorsHeader {
  const dataByteOffset = safetensorsPrefixBytes + text.byteLength;
  const dataByteLength = byteLength - dataByteOffset;
  const entries = headerEntries(text, fileName);
  const metadata = headerMetadata(entries.get(safetensorsMetadataName), fileName);
  const arrays: SafetensorsArray[] = [];
  for (const [name, entry] of entries) {
    if (name !== safetensorsMetadataName) arrays.push(headerArray(name, entry, fileName));
  }
  arrays.sort((a, b) => a.byteOffset - b.byteOffset || a.byteLength - b.byteLength);
  checkCoverage(arrays, dataByteLength, fileName);
  return { metadata, arrays, dataByteOffset, dataByteLength };
}

function headerEntries(text: Uint8Array, fileName: string): ReadonlyMap<string, StrictJson> {
  if (text[0] !== "{".charCodeAt(0)) throw invalidFile(fileName, 'header does not begin with "{"');
  let value: StrictJson;
  try {
    value = parseStrictJson(new TextDecoder("utf-8", { fatal: true }).decode(text));
  } catch (error) {
    if (error instanceof JsonError)
      throw invalidFile(fileName, `header is not valid: ${error.message}`, error);
    if (error instanceof TypeError) throw invalidFile(fileName, "header is not valid UTF-8", error);
    throw error;
  }
  return value as ReadonlyMap<string, StrictJson>;
}

function headerMetadata(
  value: StrictJson | undefined,
  fileName: string,
): ReadonlyMap<string, string> {
  if (value === undefined || value === null) return new Map();
  if (!(value instanceof Map))
    throw invalidFile(fileName, `${safetensorsMetadataName} is no object`);
  for (const [key, text] of value) {
    if (typeof text !== "string") {
      throw invalidFile(fileName, `${safetensorsMetadataName} has ${shown(key)} that is no string`);
    }
  }
  return value as ReadonlyMap<string, string>;
}

function headerArray(name: string, entry: StrictJson, fileName: string): SafetensorsArray {
  const fail = (problem: string, cause?: unknown) =>
    invalidFile(fileName, `array ${shown(name)}: ${problem}`, cause);
  if (!(entry instanceof Map)) throw fail("its entry is no object");
  const fields: ReadonlyMap<string, StrictJson> = entry;

  const dtypeName = fields.get("dtype");
  if (typeof dtypeName !== "string") throw fail("dtype is no string");
  const dtype = dtypeOfSafetensorsName(dtypeName);
  if (dtype === undefined && !isOpaque(dtypeName)) {
    const known = safetensorsDTypeNames.join(", ");
    throw unsupportedDType(
      fileName,
      `array ${shown(name)} has dtype ${shown(dtypeName)}, wanted one of ${known}`,
    );
  }
  const shape = fields.get("shape");
  if (!isIntegers(shape)) throw fail("shape is no list of integers from 0");
  const offsets = fields.get("data_offsets");
  if (!isIntegers(offsets) || offsets.length !== 2)
    throw fail("data_offsets are not two integers from 0");
  const [begin, end] = offsets as readonly [number, number];
  if (end < begin) throw fail(`data end at ${end} before they begin at ${begin}`);

  let wanted: number;
  try {
    wanted =
      dtype === undefined
        ? opaqueByteLength({ dtype: dtypeName, shape })
        : arrayByteLength(dtype, shape);
  } catch (error) {
    throw fail(messageOf(error), error);
  }
  if (end - begin !== wanted) {
    throw fail(
      `shape [${shape.join(", ")}] of ${dtype ?? dtypeName} is ${wanted} bytes, ` +
        `data_offsets span ${end - begin}`,
    );
  }
  const place = { name, byteOffset: begin, byteLength: wanted };
  if (dtype !== undefined) return { ...place, dtype, shape };
  const opaque = { dtype: dtypeName, shape };
  return { ...place, dtype: "uint8", shape: shapeInBytes(opaque), opaque };
}

/**
 * The arrays, sorted by offset, must cover the data from its first byte to its last without a gap.
 */
function checkCoverage(
  arrays: readonly SafetensorsArray[],
  dataByteLength: number,
  fileName: string,
): void {
  let covered = 0;
  for (const { name, byteOffset, byteLength } of arrays) {
    if (byteOffset !== covered) {
      const problem = byteOffset < covered ? "overlap the array before" : "leave a gap";
      throw invalidFile(
        fileName,
        `data of array ${shown(name)} ${problem}: at ${byteOffset}, wanted ${covered}`,
      );
    }
    covered += byteLength;
  }
  if (covered !== dataByteLength) {
    throw invalidFile(
      fileName,
      `header claims ${covered} bytes of data, file has ${dataByteLength}`,
    );
  }
}

function isIntegers(value: StrictJson | undefined): value is readonly number[] {
  return Array.isArray(value) && value.every((item) => Number.isSafeInteger(item));
}

function shown(name: string): string {
  return JSON.stringify(name.length > 200 ? `${name.slice(0, 200)}...` : name);
}
