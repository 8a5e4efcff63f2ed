/**
 * Models of the operations on elements, in the plainest TypeScript, and their test values. Bytes
 * in, bytes out. They share nothing with the tested code except the encoding of 16-bit floats,
 * which other tests compare with ml_dtypes.
 */
import type { ArithmeticDType, Scalar } from "../../src/array/arithmetic.js";
import { dtypes } from "../../src/array/dtype.js";
import { decodeToFloat32, encodeFromFloat32 } from "../../src/array/small-floats.js";
import { noise } from "./conformance-rig.js";

type Small = "float16" | "bfloat16";

const isFloat = (dtype: ArithmeticDType) => dtypes[dtype].kind === "float";
const isSmall = (dtype: ArithmeticDType): dtype is Small =>
  dtype === "float16" || dtype === "bfloat16";

/**
 * Special bits of floats: NaNs, infinities, zeros, limits of subnormal and normal numbers, ties of
 * rounding.
 */
const specialBits: Partial<Record<ArithmeticDType, readonly bigint[]>> = {
  float16: [
    0x7e00, 0xfe01, 0x7c01, 0x7c00, 0xfc00, 0, 0x8000, 1, 0x8001, 0x3ff, 0x400, 0x7bff, 0xfbff,
    0x3c00, 0x3555,
  ].map(BigInt),
  bfloat16: [
    0x7fc0, 0xffc1, 0x7f81, 0x7f80, 0xff80, 0, 0x8000, 1, 0x8001, 0x7f, 0x80, 0x7f7f, 0xff7f,
    0x3f80, 0x3eab,
  ].map(BigInt),
  float32: [
    0x7fc00000, 0xffc00001, 0x7f800001, 0x7f800000, 0xff800000, 0, 0x80000000, 1, 0x80000001,
    0x7fffff, 0x800000, 0x7f7fffff, 0xff7fffff, 0x3f800000, 0x3eaaaaab,
  ].map(BigInt),
  float64: [
    0x7ff8000000000000n,
    0xfff8000000000001n,
    0x7ff0000000000001n,
    0x7ff0000000000000n,
    0xfff0000000000000n,
    0n,
    0x8000000000000000n,
    1n,
    0x8000000000000001n,
    0xfffffffffffffn,
    0x10000000000000n,
    0x7fefffffffffffffn,
    0xffefffffffffffffn,
    0x3ff0000000000000n,
    0x3fd5555555555555n,
  ],
};

/**
 * The bytes of elements: first the special bits and the extremes of integers, then arbitrary bits.
 */
export function someElements(dtype: ArithmeticDType, count: number, seed: number): Uint8Array {
  const { byteSize } = dtypes[dtype];
  const bytes = noise(count * byteSize, seed);
  const half = 1n << BigInt(8 * byteSize - 1);
  const first = specialBits[dtype] ?? [0n, 1n, half - 1n, half, half + 1n, 2n * half - 1n];
  first.slice(0, count).forEach((bits, i) => {
    for (let k = 0; k < byteSize; k += 1)
      bytes[i * byteSize + k] = Number((bits >> BigInt(8 * k)) & 0xffn);
  });
  return bytes;
}

/** The elements as numbers, or as bigints for 64-bit integers. */
function valuesOf(dtype: ArithmeticDType, bytes: Uint8Array): Scalar[] {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const { byteSize } = dtypes[dtype];
  if (isSmall(dtype)) {
    return [...decodeToFloat32(dtype, new Uint16Array(Uint8Array.from(bytes).buffer))];
  }
  return Array.from({ length: bytes.byteLength / byteSize }, (_, i) =>
    readers[dtype](view, i * byteSize),
  );
}

const readers: Readonly<
  Record<Exclude<ArithmeticDType, Small>, (view: DataView, at: number) => Scalar>
> = {
  uint8: (view, at) => view.getUint8(at),
  int8: (view, at) => view.getInt8(at),
  uint16: (view, at) => view.getUint16(at, true),
  int16: (view, at) => view.getInt16(at, true),
  uint32: (view, at) => view.getUint32(at, true),
  int32: (view, at) => view.getInt32(at, true),
  uint64: (view, at) => view.getBigUint64(at, true),
  int64: (view, at) => view.getBigInt64(at, true),
  float32: (view, at) => view.getFloat32(at, true),
  float64: (view, at) => view.getFloat64(at, true),
};

/**
 * The bytes of values: integers wrap around, floats are rounded once, and NaN is the one pattern.
 */
export function bytesOf(dtype: ArithmeticDType, values: readonly Scalar[]): Uint8Array {
  const { byteSize } = dtypes[dtype];
  const bytes = new Uint8Array(values.length * byteSize);
  const view = new DataView(bytes.buffer);
  if (isSmall(dtype)) {
    const bits = encodeFromFloat32(dtype, values as number[]);
    bits.forEach((it, i) => {
      view.setUint16(
        2 * i,
        Number.isNaN(values[i]) ? { float16: 0x7e00, bfloat16: 0x7fc0 }[dtype] : it,
        true,
      );
    });
    return bytes;
  }
  values.forEach((value, i) => {
    const at = i * byteSize;
    if (dtype === "float32") {
      if (Number.isNaN(value)) view.setUint32(at, 0x7fc00000, true);
      else view.setFloat32(at, value as number, true);
    } else if (dtype === "float64") {
      if (Number.isNaN(value)) view.setBigUint64(at, 0x7ff8000000000000n, true);
      else view.setFloat64(at, value as number, true);
    } else if (byteSize === 8) view.setBigUint64(at, BigInt.asUintN(64, BigInt(value)), true);
    else if (byteSize === 4) view.setUint32(at, Number(value), true);
    else if (byteSize === 2) view.setUint16(at, Number(value), true);
    else view.setUint8(at, Number(value));
  });
  return bytes;
}

/** a * x + b in the dtype, not yet rounded to 16 bits. */
function multiplyAdd(dtype: ArithmeticDType, a: Scalar, x: Scalar, b: Scalar): Scalar {
  if (dtype === "float64") return Number(a) * Number(x) + Number(b);
  const f = Math.fround;
  if (isFloat(dtype)) return f(f(f(Number(a)) * f(Number(x))) + f(Number(b)));
  if (dtypes[dtype].byteSize === 8) return BigInt(a) * BigInt(x) + BigInt(b);
  return Math.imul(Number(a), Number(x)) + Number(b);
}

export function iotaBytes(
  dtype: ArithmeticDType,
  count: number,
  start: Scalar,
  step: Scalar,
): Uint8Array {
  const values = Array.from({ length: count }, (_, i) => multiplyAdd(dtype, step, i, start));
  return bytesOf(dtype, values);
}

export function affineBytes(
  dtype: ArithmeticDType,
  from: Uint8Array,
  a: Scalar,
  b: Scalar,
): Uint8Array {
  return bytesOf(
    dtype,
    valuesOf(dtype, from).map((x) => multiplyAdd(dtype, a, x, b)),
  );
}

/** The definition in operation-calls.ts, modulo 2^32 and 2^64 in bigints. */
export function checksumOf(bytes: Uint8Array): bigint {
  const padded = new Uint8Array(4 * Math.ceil(bytes.byteLength / 4));
  padded.set(bytes);
  const u32 = (value: bigint) => BigInt.asUintN(32, value);
  let sum = 0n;
  new Uint32Array(padded.buffer).forEach((word, i) => {
    let mixed = u32(BigInt(word) + BigInt(i) * 0x9e3779b1n);
    mixed = u32((mixed ^ (mixed >> 16n)) * 0x85ebca6bn);
    mixed = u32((mixed ^ (mixed >> 13n)) * 0xc2b2ae35n);
    sum += mixed ^ (mixed >> 16n);
  });
  return BigInt.asUintN(64, sum);
}

export interface PlainStatistics {
  readonly nanCount: number;
  readonly infiniteCount: number;
  readonly zeroCount: number;
  readonly min: Scalar | undefined;
  readonly max: Scalar | undefined;
  readonly mean: number | undefined;
  /** The mean of absolute values, to scale the error of the mean. */
  readonly size: number;
}

export function statisticsOf(dtype: ArithmeticDType, bytes: Uint8Array): PlainStatistics {
  const values = valuesOf(dtype, bytes);
  const numbers = values.filter((it) => !Number.isNaN(it));
  const finite = numbers.map(Number).filter(Number.isFinite);
  let [min, max] = [numbers[0], numbers[0]];
  let [mean, size] = [0, 0];
  for (const it of numbers) {
    if (it < (min as Scalar)) min = it;
    if (it > (max as Scalar)) max = it;
  }
  for (const it of finite) {
    mean += it / finite.length;
    size += Math.abs(it) / finite.length;
  }
  const plain = (it: Scalar | undefined) => (typeof it === "number" ? it + 0 : it);
  return {
    nanCount: values.length - numbers.length,
    infiniteCount: numbers.length - finite.length,
    zeroCount: numbers.filter((it) => it === 0 || it === 0n).length,
    min: plain(min),
    max: plain(max),
    mean: finite.length === 0 ? undefined : mean,
    size,
  };
}

/** Elements of which some are equal, some near and some far from those given. */
export function nearTo(dtype: ArithmeticDType, bytes: Uint8Array): Uint8Array {
  const values = valuesOf(dtype, bytes).map((value, i): Scalar => {
    if (i % 4 === 0 || Number.isNaN(value)) return value;
    if (typeof value === "bigint") return value + BigInt(i % 4);
    if (!isFloat(dtype)) return value + (i % 4);
    return i % 4 === 3 ? value * 2 : value * (1 + 10 ** -(3 + (i % 5)));
  });
  return bytesOf(dtype, values);
}

/** The formula of numpy.isclose, with |x - y| <= atol + rtol * |y| in float64. */
export function notClose(
  dtype: ArithmeticDType,
  a: Uint8Array,
  b: Uint8Array,
  rtol: number,
  atol: number,
): { readonly differences: number; readonly first: number | undefined } {
  const [ofA, ofB] = [valuesOf(dtype, a).map(Number), valuesOf(dtype, b).map(Number)];
  const far = ofA.flatMap((x, i) => {
    const y = ofB[i] as number;
    const isNear = Number.isFinite(y) && Math.abs(x - y) <= atol + rtol * Math.abs(y);
    return isNear || x === y ? [] : [i];
  });
  return { differences: far.length, first: far[0] };
}

/** Scalars for the operations on a dtype: ordinary values, extremes and special floats. */
interface Scalars {
  readonly fills: readonly Scalar[];
  /** Pairs of start and step. */
  readonly iotas: readonly (readonly [Scalar, Scalar])[];
  /** Pairs of a and b. */
  readonly affines: readonly (readonly [Scalar, Scalar])[];
}

export function scalarsOf(dtype: ArithmeticDType): Scalars {
  const { kind, byteSize } = dtypes[dtype];
  if (kind === "float") {
    const beyond = 1e300;
    return {
      fills: [0, -0, 1 / 3, -65504, 1e-40, Number.NaN, Number.NEGATIVE_INFINITY, beyond],
      iotas: [
        [0, 1],
        [-3.3, 1 / 3],
        [1e-40, 1e-42],
        [Number.NEGATIVE_INFINITY, 1e30],
        [0, Number.NaN],
      ],
      affines: [
        [1, 0],
        [2, 1],
        [-1 / 3, 0.1],
        [1e-20, 1e-44],
        [beyond, -1],
        [0, Number.POSITIVE_INFINITY],
      ],
    };
  }
  const bits = BigInt(8 * byteSize);
  const [min, max] =
    kind === "uint" ? [0n, 2n ** bits - 1n] : [-(2n ** (bits - 1n)), 2n ** (bits - 1n) - 1n];
  const as = (value: bigint): Scalar => (byteSize === 8 ? value : Number(value));
  return {
    fills: [as(0n), as(1n), as(min), as(max), as(max / 3n)],
    iotas: [
      [as(0n), as(1n)],
      [as(max), as(1n)],
      [as(max / 3n), as(max / 5n)],
      [as(1n), as(kind === "int" ? -3n : max)],
    ],
    affines: [
      [as(1n), as(0n)],
      [as(3n), as(1n)],
      [as(max), as(min)],
      [as(kind === "int" ? -7n : max / 7n), as(max)],
    ],
  };
}
