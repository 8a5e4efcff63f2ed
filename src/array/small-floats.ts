/**
 * Converts the floats without a JavaScript array (float16, bfloat16, two kinds of float8) to and
 * from float32. In JavaScript they are raw bits in a Uint16Array or Uint8Array. Rounding is to
 * nearest, ties to even.
 *
 *     float16        s eeeee mmmmmmmmmm     bias  15   infinity and NaN as IEEE 754
 *     bfloat16       s eeeeeeee mmmmmmm     bias 127   the upper half of a float32
 *     float8_e5m2    s eeeee mm             bias  15   infinity and NaN as IEEE 754
 *     float8_e4m3fn  s eeee mmm             bias   7   no infinity; NaN is s1111111; at most 448
 */

export type SmallFloat = "float16" | "bfloat16" | "float8_e4m3fn" | "float8_e5m2";

/** The array of raw bits of a small float. */
export type SmallFloatBits<D extends SmallFloat> = D extends "float16" | "bfloat16"
  ? Uint16Array
  : Uint8Array;

interface Format {
  readonly bitCount: 8 | 16;
  readonly mantissaBits: number;
  readonly bias: number;
  /** Bits of the largest finite value. */
  readonly largest: number;
  /** The result for a value that is too large. */
  readonly overflow: number;
  /** The NaN that is written. `nan` and all bit patterns above `overflow` are read as NaN. */
  readonly nan: number;
}

const formats: Readonly<Record<SmallFloat, Format>> = {
  float16: {
    bitCount: 16,
    mantissaBits: 10,
    bias: 15,
    largest: 0x7bff,
    overflow: 0x7c00,
    nan: 0x7e00,
  },
  bfloat16: {
    bitCount: 16,
    mantissaBits: 7,
    bias: 127,
    largest: 0x7f7f,
    overflow: 0x7f80,
    nan: 0x7fc0,
  },
  float8_e5m2: { bitCount: 8, mantissaBits: 2, bias: 15, largest: 0x7b, overflow: 0x7c, nan: 0x7e },
  float8_e4m3fn: {
    bitCount: 8,
    mantissaBits: 3,
    bias: 7,
    largest: 0x7e,
    overflow: 0x7f,
    nan: 0x7f,
  },
};

const FLOAT32_INFINITY = 0x7f800000;
const FLOAT32_NAN = 0x7fc00000;
const FLOAT32_BIAS = 127;
const FLOAT32_MANTISSA_BITS = 23;

export function isSmallFloat(dtype: string): dtype is SmallFloat {
  return Object.hasOwn(formats, dtype);
}

/** The exact float32 value of every element. Signs of zeros and NaNs are kept. */
export function decodeToFloat32<D extends SmallFloat>(
  dtype: D,
  bits: SmallFloatBits<D>,
): Float32Array {
  const table = decodingTable(dtype);
  const decoded = new Uint32Array(bits.length);
  for (let i = 0; i < bits.length; i += 1) decoded[i] = table[bits[i] as number] as number;
  return new Float32Array(decoded.buffer);
}

/**
 * The nearest value of the format for every element, as raw bits. A value that is too large becomes
 * infinity, or NaN in float8_e4m3fn, which has no infinity. ml_dtypes and a plain torch cast do the
 * same, and do not clamp to 448. Elements of a `number[]` are rounded once, not to float32 first.
 */
export function encodeFromFloat32<D extends SmallFloat>(
  dtype: D,
  values: Float32Array | readonly number[],
): SmallFloatBits<D> {
  const format = formats[dtype];
  const bits =
    format.bitCount === 16 ? new Uint16Array(values.length) : new Uint8Array(values.length);
  if (values instanceof Float32Array) {
    const source = new Uint32Array(values.buffer, values.byteOffset, values.length);
    for (let i = 0; i < bits.length; i += 1) bits[i] = encodeBits(format, source[i] as number);
  } else {
    for (let i = 0; i < bits.length; i += 1)
      bits[i] = encodeBits(format, roundToOddFloat32(values[i] as number));
  }
  return bits as SmallFloatBits<D>;
}

/** Converts the bits of a float32 to the bits of the format. */
function encodeBits(format: Format, float32Bits: number): number {
  const sign = (float32Bits >>> 31) << (format.bitCount - 1);
  const magnitude = float32Bits & 0x7fffffff;
  if (magnitude > FLOAT32_INFINITY) return sign | format.nan;
  if (magnitude === FLOAT32_INFINITY) return sign | format.overflow;

  const droppedBits = FLOAT32_MANTISSA_BITS - format.mantissaBits;
  const rebias = FLOAT32_BIAS - format.bias;
  const exponent = (magnitude >>> FLOAT32_MANTISSA_BITS) - rebias;
  if (rebias === 0 || exponent >= 1) {
    const rounded = shiftRightRoundingToEven(
      magnitude - (rebias << FLOAT32_MANTISSA_BITS),
      droppedBits,
    );
    return sign | (rounded > format.largest ? format.overflow : rounded);
  }
  // The value is subnormal in the format: the hidden bit becomes visible, and smaller values lose
  // more bits.
  const shift = droppedBits + 1 - exponent;
  if (shift > FLOAT32_MANTISSA_BITS + 1) return sign;
  const mantissa = (magnitude & 0x7fffff) | 0x800000;
  return sign | shiftRightRoundingToEven(mantissa, shift);
}

function shiftRightRoundingToEven(value: number, shift: number): number {
  const belowHalf = (1 << (shift - 1)) - 1;
  const lowestKept = (value >>> shift) & 1;
  return (value + belowHalf + lowestKept) >>> shift;
}

const float32Scratch = new Float32Array(1);
const float32ScratchBits = new Uint32Array(float32Scratch.buffer);

/**
 * The bits of a float64 as a float32 whose lowest bit is 1 if anything was cut off. WHY: rounding
 * that to nearest equals rounding the float64 once. Rounding to nearest twice does not.
 */
function roundToOddFloat32(value: number): number {
  const nearest = Math.fround(value);
  float32Scratch[0] = nearest;
  let bits = float32ScratchBits[0] as number;
  if (nearest === value || Number.isNaN(value)) return bits;
  if (Math.abs(nearest) > Math.abs(value)) bits -= 1;
  return bits | 1;
}

const decodingTables = new Map<SmallFloat, Uint32Array>();

/** The float32 bits of each bit pattern of the format. At most 256 KiB, built at first use. */
function decodingTable(dtype: SmallFloat): Uint32Array {
  let table = decodingTables.get(dtype);
  if (table === undefined) {
    const format = formats[dtype];
    table = Uint32Array.from({ length: 2 ** format.bitCount }, (_, bits) =>
      decodeBits(format, bits),
    );
    decodingTables.set(dtype, table);
  }
  return table;
}

function decodeBits(format: Format, bits: number): number {
  const signBit = 2 ** (format.bitCount - 1);
  const sign = bits >= signBit ? 0x80000000 : 0;
  const magnitude = bits % signBit;
  if (magnitude === format.nan || magnitude > format.overflow) return sign + FLOAT32_NAN;
  if (magnitude === format.overflow) return sign + FLOAT32_INFINITY;
  const mantissa = magnitude % 2 ** format.mantissaBits;
  const exponent = Math.floor(magnitude / 2 ** format.mantissaBits);
  const fraction = mantissa / 2 ** format.mantissaBits;
  const value =
    exponent === 0
      ? fraction * 2 ** (1 - format.bias)
      : (1 + fraction) * 2 ** (exponent - format.bias);
  float32Scratch[0] = value;
  return sign + (float32ScratchBits[0] as number);
}
