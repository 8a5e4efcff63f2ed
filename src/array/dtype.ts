/**
 * The element types of arrays, and their facts. host-values.ts has their JavaScript values, and the
 * file formats have their own names for them.
 */
import { CudaIpcError } from "../base/errors.js";
import { didYouMean } from "../base/near-words.js";
import { shownValue } from "../base/shown-value.js";

export type DTypeKind = "bool" | "uint" | "int" | "float" | "complex";

export interface DTypeFacts {
  readonly kind: DTypeKind;
  /** Bytes of one element. */
  readonly byteSize: 1 | 2 | 4 | 8 | 16;
  /**
   * Alignment of an element in bytes, as in numpy. For complex types it is the size of one part.
   */
  readonly alignment: 1 | 2 | 4 | 8;
}

/** All dtypes. They are little-endian in memory and in files. */
export const dtypes = {
  bool: { kind: "bool", byteSize: 1, alignment: 1 },
  uint8: { kind: "uint", byteSize: 1, alignment: 1 },
  uint16: { kind: "uint", byteSize: 2, alignment: 2 },
  uint32: { kind: "uint", byteSize: 4, alignment: 4 },
  uint64: { kind: "uint", byteSize: 8, alignment: 8 },
  int8: { kind: "int", byteSize: 1, alignment: 1 },
  int16: { kind: "int", byteSize: 2, alignment: 2 },
  int32: { kind: "int", byteSize: 4, alignment: 4 },
  int64: { kind: "int", byteSize: 8, alignment: 8 },
  float8_e4m3fn: { kind: "float", byteSize: 1, alignment: 1 },
  float8_e5m2: { kind: "float", byteSize: 1, alignment: 1 },
  float16: { kind: "float", byteSize: 2, alignment: 2 },
  bfloat16: { kind: "float", byteSize: 2, alignment: 2 },
  float32: { kind: "float", byteSize: 4, alignment: 4 },
  float64: { kind: "float", byteSize: 8, alignment: 8 },
  complex64: { kind: "complex", byteSize: 8, alignment: 4 },
  complex128: { kind: "complex", byteSize: 16, alignment: 8 },
} as const satisfies Record<string, DTypeFacts>;

export type DType = keyof typeof dtypes;

export const dtypeNames: readonly DType[] = Object.freeze(Object.keys(dtypes) as DType[]);

/**
 * WHY a map: element operations look this up often, and a map is faster than an own-property check.
 */
const factsByName: ReadonlyMap<unknown, DTypeFacts> = new Map(Object.entries(dtypes));

export function isDType(value: unknown): value is DType {
  return factsByName.has(value);
}

/** The facts of a dtype. Throws a TypeError for anything else. */
export function dtypeFacts(dtype: DType): DTypeFacts {
  const facts = factsByName.get(dtype);
  if (facts !== undefined) return facts;
  const found = `${shownValue(dtype)}${meantBy(dtype)}`;
  throw new TypeError(`dtype must be one of ${dtypeNames.join(", ")}, not ${found}`);
}

/**
 * Parses a dtype from outside, such as a command line or a peer.
 * @throws CudaIpcError `UNSUPPORTED_DTYPE`, with the known dtypes
 */
export function parseDType(text: string): DType {
  if (isDType(text)) return text;
  const known = `known are ${dtypeNames.join(", ")}${meantBy(text)}`;
  throw new CudaIpcError("UNSUPPORTED_DTYPE", `Unknown dtype ${shownValue(text)}: ${known}`);
}

/** Names of the dtypes in other libraries and languages. */
const otherNames: ReadonlyMap<string, DType> = new Map([
  ["float", "float32"],
  ["double", "float64"],
  ["half", "float16"],
  ["int", "int32"],
  ["uint", "uint32"],
  ["long", "int64"],
  ["short", "int16"],
  ["char", "int8"],
  ["byte", "uint8"],
  ["boolean", "bool"],
  ["complex", "complex64"],
]);

function meantBy(text: unknown): string {
  const other = typeof text === "string" ? otherNames.get(text.toLowerCase()) : undefined;
  if (other !== undefined) return `. Did you mean "${other}"?`;
  const meant = typeof text === "string" ? didYouMean(text, dtypeNames) : "";
  return meant === "" ? "" : `.${meant}`;
}
