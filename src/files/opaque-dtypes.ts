/**
 * Dtypes of safetensors that nothing here computes with. Their arrays travel as bytes (`uint8`).
 * The metadata of the bundle says what they are, and a saved file has them as they came.
 */
import { elementCount } from "../array/layout.js";

/** As a header of safetensors has it. */
export interface OpaqueType {
  readonly dtype: string;
  readonly shape: readonly number[];
}

/** Bits of one element. */
const bitsByDType: ReadonlyMap<string, number> = new Map([
  ["F4", 4],
  ["F6_E2M3", 6],
  ["F6_E3M2", 6],
  ["F8_E8M0", 8],
  ["F8_E4M3FNUZ", 8],
  ["F8_E5M2FNUZ", 8],
]);

/** The metadata of a bundle has this and the name of the array. */
const KEY = "cuda-ipc.dtype:";

export function isOpaque(dtype: string): boolean {
  return bitsByDType.has(dtype);
}

/** @throws RangeError for a wrong shape, or one whose elements fill no whole number of bytes */
export function opaqueByteLength({ dtype, shape }: OpaqueType): number {
  const bits = BigInt(elementCount(shape)) * BigInt(bitsByDType.get(dtype) ?? 8);
  if (bits % 8n !== 0n)
    throw new RangeError(`shape [${shape.join(", ")}] of ${dtype} is no whole number of bytes`);
  return Number(bits / 8n);
}

/** The shape as bytes: packed along the last axis if that is possible, else in a row. */
export function shapeInBytes(type: OpaqueType): readonly number[] {
  const bits = (type.shape.at(-1) ?? 1) * (bitsByDType.get(type.dtype) ?? 8);
  if (bits % 8 !== 0) return [opaqueByteLength(type)];
  return type.shape.length === 0 ? [] : [...type.shape.slice(0, -1), bits / 8];
}

export function opaqueMetadata(name: string, { dtype, shape }: OpaqueType): [string, string] {
  return [`${KEY}${name}`, JSON.stringify({ dtype, shape })];
}

/** Whether the key says what an array is, and belongs to no file. */
export function isOpaqueKey(key: string): boolean {
  return key.startsWith(KEY);
}

/** The original dtype and shape of an array; undefined if the metadata does not give them. */
export function opaqueTypeOf(
  name: string,
  byteLength: number,
  metadata: Readonly<Record<string, string>>,
): OpaqueType | undefined {
  const text = Object.hasOwn(metadata, `${KEY}${name}`) ? metadata[`${KEY}${name}`] : undefined;
  if (text === undefined) return undefined;
  try {
    // Anyone who makes a bundle may have written it.
    const found = JSON.parse(text) as OpaqueType;
    const type = { dtype: found.dtype, shape: found.shape };
    return isOpaque(type.dtype) && opaqueByteLength(type) === byteLength ? type : undefined;
  } catch {
    return undefined;
  }
}
