/** Plans and encodes .safetensors headers, byte for byte as the reference implementation does. */
import type { DType } from "../array/dtype.js";
import { arrayByteLength } from "../array/layout.js";
import { roundUp } from "../base/bytes.js";
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import {
  type SafetensorsArray,
  safetensorsDType,
  safetensorsMetadataName,
  safetensorsPrefixBytes,
} from "./safetensors-header.js";

export interface SafetensorsPlan {
  /** In the order of their data, in which they must be written. */
  readonly arrays: readonly SafetensorsArray[];
  readonly dataByteLength: number;
}

/** The data begins at a multiple of this. */
const DATA_ALIGNMENT = 8;

/**
 * Places the arrays of a file without gaps: larger elements first, then by name. This aligns all of
 * them.
 * @throws CudaIpcError `UNSUPPORTED_DTYPE` for complex128; RangeError for an invalid shape
 * @throws TypeError for a duplicate name, `__metadata__`, or a name that is not valid Unicode
 */
export function planSafetensors(
  arrays: Iterable<{
    readonly name: string;
    readonly dtype: DType;
    readonly shape: readonly number[];
  }>,
): SafetensorsPlan {
  const sorted = Array.from(arrays, ({ name, dtype, shape }) => {
    checkText("array name", name);
    return { name, utf8: Buffer.from(name), dtype, shape, rank: safetensorsDType(dtype).rank };
  });
  sorted.sort((a, b) => b.rank - a.rank || Buffer.compare(a.utf8, b.utf8));

  let byteOffset = 0;
  const planned = sorted.map(({ name, dtype, shape }) => {
    const array = { name, dtype, shape, byteOffset, byteLength: arrayByteLength(dtype, shape) };
    byteOffset += array.byteLength;
    return array;
  });
  if (byteOffset > Number.MAX_SAFE_INTEGER)
    throw new RangeError("Cannot plan a file of over 2^53 - 1 bytes");
  checkNames(planned);
  return { arrays: planned, dataByteLength: byteOffset };
}

/**
 * The bytes of a .safetensors file before its data: length, JSON, and spaces up to a multiple of 8.
 * @param arrays in the order of their data, as `planSafetensors` returns them
 * @throws CudaIpcError `LIMIT_EXCEEDED` for a header over the format's 100 MB; the errors of
 * `planSafetensors`
 */
export function encodeSafetensorsHeader(
  arrays: readonly SafetensorsArray[],
  metadata: ReadonlyMap<string, string> = new Map(),
): Uint8Array {
  checkNames(arrays);
  const entries = arrays.map(({ name, dtype, shape, byteOffset, byteLength, opaque }) => {
    checkText("array name", name);
    const info = {
      ...(opaque ?? { dtype: safetensorsDType(dtype).name, shape }),
      data_offsets: [byteOffset, byteOffset + byteLength],
    };
    return `${JSON.stringify(name)}:${JSON.stringify(info)}`;
  });
  if (metadata.size > 0) entries.unshift(`"${safetensorsMetadataName}":${metadataJson(metadata)}`);

  const json = Buffer.from(`{${entries.join(",")}}`);
  const textBytes = roundUp(json.byteLength, DATA_ALIGNMENT);
  if (textBytes > limits.safetensorsHeaderBytesMax) {
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot write a .safetensors header of ${textBytes} bytes: ` +
        `the limit is ${limits.safetensorsHeaderBytesMax}`,
    );
  }
  const bytes = new Uint8Array(safetensorsPrefixBytes + textBytes).fill(" ".charCodeAt(0));
  new DataView(bytes.buffer).setBigUint64(0, BigInt(textBytes), true);
  bytes.set(json, safetensorsPrefixBytes);
  return bytes;
}

/** Sorted by key, so equal metadata gives equal bytes. */
function metadataJson(metadata: ReadonlyMap<string, string>): string {
  const keys = [...metadata.keys()].sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  const pairs = keys.map((key) => {
    const value = metadata.get(key);
    checkText("metadata key", key);
    checkText("metadata value", value);
    return `${JSON.stringify(key)}:${JSON.stringify(value)}`;
  });
  return `{${pairs.join(",")}}`;
}

function checkNames(arrays: readonly { readonly name: string }[]): void {
  const names = new Set<string>();
  for (const { name } of arrays) {
    if (name === safetensorsMetadataName)
      throw new TypeError(`No array may have the name ${safetensorsMetadataName}`);
    if (names.has(name)) throw new TypeError(`Two arrays have the name ${JSON.stringify(name)}`);
    names.add(name);
  }
}

function checkText(what: string, text: unknown): void {
  if (typeof text !== "string" || /\p{Surrogate}/u.test(text)) {
    throw new TypeError(
      `${what} must be a string of Unicode, not ${JSON.stringify(text) ?? String(text)}`,
    );
  }
}
