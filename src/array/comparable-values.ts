/** Elements of any dtype as numbers that can be compared, for statistics and pictures. */
import { type DType, dtypeFacts } from "./dtype.js";
import { fromHostBytes } from "./host-values.js";
import { decodeToFloat32, isSmallFloat, type SmallFloatBits } from "./small-floats.js";

export type NumberArray =
  | Uint8Array
  | Uint16Array
  | Uint32Array
  | Int8Array
  | Int16Array
  | Int32Array
  | Float32Array
  | Float64Array;

/** One number or bigint per element, which `<` can compare. */
export function comparableValues(
  dtype: DType,
  bytes: Uint8Array,
): NumberArray | BigInt64Array | BigUint64Array {
  const values = fromHostBytes(dtype, bytes);
  if (isSmallFloat(dtype)) return decodeToFloat32(dtype, values as SmallFloatBits<typeof dtype>);
  if (dtypeFacts(dtype).kind === "complex")
    return magnitudes(values as Float32Array | Float64Array);
  return values;
}

/** As float64. 64-bit integers are rounded. */
export function comparableNumbers(dtype: DType, bytes: Uint8Array): Float64Array {
  const values = comparableValues(dtype, bytes);
  if (!(values instanceof BigInt64Array || values instanceof BigUint64Array))
    return new Float64Array(values);
  const numbers = new Float64Array(values.length);
  for (let i = 0; i < values.length; i += 1) numbers[i] = Number(values[i]);
  return numbers;
}

/**
 * WHY not only Math.hypot: NaN in either part must give NaN, but Math.hypot(NaN, Infinity) is
 * Infinity.
 */
function magnitudes(pairs: Float32Array | Float64Array): Float64Array {
  const result = new Float64Array(pairs.length / 2);
  for (let i = 0; i < result.length; i += 1) {
    const real = pairs[2 * i] as number;
    const imaginary = pairs[2 * i + 1] as number;
    result[i] =
      Number.isNaN(real) || Number.isNaN(imaginary) ? Number.NaN : Math.hypot(real, imaginary);
  }
  return result;
}
