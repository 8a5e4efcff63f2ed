/**
 * The dtypes with arithmetic, and single values of them: their checks and bytes. All devices follow
 * the same rules. Integers wrap around. 16-bit floats are computed in float32 and rounded once when
 * stored. NaN has one bit pattern.
 */

import { CudaIpcError } from "../base/errors.js";
import { shownValue } from "../base/shown-value.js";
import { type DType, dtypeFacts } from "./dtype.js";
import { toHostBytes } from "./host-values.js";

/** All dtypes except bool, float8 and complex. */
export type ArithmeticDType = Exclude<
  DType,
  "bool" | "float8_e4m3fn" | "float8_e5m2" | "complex64" | "complex128"
>;

/** A number. For 64-bit integers a bigint, or a number that is an exact integer. */
export type Scalar = number | bigint;

/**
 * The type in which an element is computed. Signed integers use the unsigned types: sums and
 * products modulo 2^n have the same bits.
 */
export type ComputeType = "u32" | "u64" | "f32" | "f64";

const computeTypes: Readonly<Record<ArithmeticDType, ComputeType>> = {
  uint8: "u32",
  int8: "u32",
  uint16: "u32",
  int16: "u32",
  uint32: "u32",
  int32: "u32",
  uint64: "u64",
  int64: "u64",
  float16: "f32",
  bfloat16: "f32",
  float32: "f32",
  float64: "f64",
};

export const arithmeticDTypes: readonly ArithmeticDType[] = Object.freeze(
  Object.keys(computeTypes) as ArithmeticDType[],
);

/** The bits of every stored NaN. */
export const nanBits = {
  float16: 0x7e00,
  bfloat16: 0x7fc0,
  float32: 0x7fc00000,
  float64: 0x7ff8000000000000n,
} as const;

const computeTypesByName: ReadonlyMap<DType, ComputeType> = new Map(
  Object.entries(computeTypes) as [ArithmeticDType, ComputeType][],
);

export function isArithmetic(dtype: DType): dtype is ArithmeticDType {
  return computeTypesByName.has(dtype);
}

/** @throws UNSUPPORTED_DTYPE */
export function checkArithmetic(attempt: string, dtype: DType): ArithmeticDType {
  if (isArithmetic(dtype)) return dtype;
  dtypeFacts(dtype);
  const wanted = arithmeticDTypes.join(", ");
  throw new CudaIpcError(
    "UNSUPPORTED_DTYPE",
    `Cannot ${attempt}: found elements of ${dtype}, wanted one of ${wanted}`,
  );
}

export function computeType(dtype: ArithmeticDType): ComputeType {
  return computeTypes[dtype];
}

/**
 * The bytes of a value, rounded to nearest for floats.
 * @throws TypeError for a value of another type, RangeError for an integer outside the dtype
 */
export function elementBytes(what: string, dtype: ArithmeticDType, value: Scalar): Uint8Array {
  checkScalar(what, dtype, value);
  if (dtypeFacts(dtype).byteSize === 8 && dtype !== "float64") {
    return bytesOf(BigUint64Array.of(BigInt.asUintN(64, BigInt(value))));
  }
  if (Number.isNaN(value)) return nanBytes(dtype as keyof typeof nanBits);
  return toHostBytes(dtype, [Number(value)], 1);
}

/** Words of 8 bytes that hold one value each, of any compute type. Their memory does not move. */
export class ScalarWords {
  readonly bytes: Uint8Array;
  readonly u32: Uint32Array;
  readonly u64: BigUint64Array;
  readonly f32: Float32Array;
  readonly f64: Float64Array;

  constructor(count: number) {
    // WHY an ArrayBuffer: small typed arrays are inside the JavaScript heap, which moves them.
    const memory = new ArrayBuffer(8 * count);
    this.bytes = new Uint8Array(memory);
    this.u32 = new Uint32Array(memory);
    this.u64 = new BigUint64Array(memory);
    this.f32 = new Float32Array(memory);
    this.f64 = new Float64Array(memory);
  }
}

/**
 * Stores a value in a word, as the type in which the dtype is computed. Throws as `elementBytes`,
 * and then stores nothing. It takes no options object, because creating one costs as much as the
 * value.
 */
export function storeComputed(
  what: string,
  dtype: ArithmeticDType,
  value: Scalar,
  words: ScalarWords,
  at: number,
): void {
  checkScalar(what, dtype, value);
  switch (computeTypes[dtype]) {
    case "u32":
      // The typed array keeps the lowest 32 bits.
      words.u32[2 * at] = Number(value);
      break;
    case "u64":
      words.u64[at] = BigInt(value);
      break;
    case "f32":
      if (Number.isNaN(value)) words.u32[2 * at] = nanBits.float32;
      else words.f32[2 * at] = Number(value);
      break;
    case "f64":
      if (Number.isNaN(value)) words.u64[at] = nanBits.float64;
      else words.f64[at] = Number(value);
      break;
  }
}

/** Size of the type in which the dtype is computed. */
export function computeByteLength(dtype: ArithmeticDType): 4 | 8 {
  return computeTypes[dtype].endsWith("32") ? 4 : 8;
}

function checkScalar(what: string, dtype: ArithmeticDType, value: unknown): void {
  const { kind, byteSize } = dtypeFacts(dtype);
  if (kind === "float" && typeof value === "number") return;
  const isLong = kind !== "float" && byteSize === 8;
  if (typeof value !== "number" && !(isLong && typeof value === "bigint")) {
    const wanted = isLong ? "a bigint or a number" : "a number";
    throw new TypeError(`${what} must be ${wanted} for ${dtype}, ` + `not ${shownValue(value)}`);
  }
  if (kind === "float") return;
  const bits = BigInt(byteSize * 8);
  const [min, max] =
    kind === "uint" ? [0n, 2n ** bits - 1n] : [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n];
  const isExact = typeof value === "bigint" || Number.isSafeInteger(value);
  if (!isExact || BigInt(value) < min || BigInt(value) > max) {
    const exact = isLong ? ", exact or as a bigint" : "";
    throw new RangeError(
      `${what} must be an integer from ${min} to ${max}${exact} for ${dtype}, not ${value}`,
    );
  }
}

function nanBytes(dtype: keyof typeof nanBits): Uint8Array {
  if (dtype === "float64") return bytesOf(BigUint64Array.of(nanBits.float64));
  return dtype === "float32"
    ? bytesOf(Uint32Array.of(nanBits.float32))
    : bytesOf(Uint16Array.of(nanBits[dtype]));
}

function bytesOf(view: ArrayBufferView): Uint8Array {
  return new Uint8Array(view.buffer, view.byteOffset, view.byteLength);
}
