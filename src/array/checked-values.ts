/**
 * Converts plain arrays of numbers, bigints and booleans to the typed array of a dtype. No value
 * wraps around or is cut.
 */
import { type DType, dtypeFacts } from "./dtype.js";
import { encodeFromFloat32, isSmallFloat } from "./small-floats.js";

/**
 * Integers must be in the dtype's range, bools must be 0, 1, false or true, and floats are rounded
 * to nearest.
 * @throws TypeError for a value of another JavaScript type; RangeError for a value outside the
 * dtype
 */
export function checkedHostArray(dtype: DType, values: readonly unknown[]): ArrayBufferView {
  if (isSmallFloat(dtype)) return encodeFromFloat32(dtype, numbers(dtype, values));
  switch (dtype) {
    case "float32":
    case "complex64":
      return Float32Array.from(numbers(dtype, values));
    case "float64":
    case "complex128":
      return Float64Array.from(numbers(dtype, values));
    case "bool":
      return bools(values);
    case "int64":
      return bigints(dtype, values, new BigInt64Array(values.length));
    case "uint64":
      return bigints(dtype, values, new BigUint64Array(values.length));
    case "int8":
      return integers(dtype, values, new Int8Array(values.length));
    case "int16":
      return integers(dtype, values, new Int16Array(values.length));
    case "int32":
      return integers(dtype, values, new Int32Array(values.length));
    case "uint8":
      return integers(dtype, values, new Uint8Array(values.length));
    case "uint16":
      return integers(dtype, values, new Uint16Array(values.length));
    case "uint32":
      return integers(dtype, values, new Uint32Array(values.length));
    default:
      throw new TypeError(`No plain values for dtype ${String(dtype)}`);
  }
}

// WHY indexed loops: forEach and every skip the holes of a sparse array.
function numbers(dtype: DType, values: readonly unknown[]): readonly number[] {
  for (let i = 0; i < values.length; i += 1) {
    if (typeof values[i] !== "number") throw wrongType(dtype, values[i], i, "a number");
  }
  return values as readonly number[];
}

function integers<A extends { [index: number]: number }>(
  dtype: DType,
  values: readonly unknown[],
  target: A,
): A {
  const { min, max } = integerRange(dtype);
  const [lowest, highest] = [Number(min), Number(max)];
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i];
    if (typeof value !== "number") throw wrongType(dtype, value, i, "a number");
    if (!Number.isInteger(value) || value < lowest || value > highest)
      throw outOfRange(dtype, value, i);
    target[i] = value;
  }
  return target;
}

function bigints<A extends { [index: number]: bigint }>(
  dtype: DType,
  values: readonly unknown[],
  target: A,
): A {
  const { min, max } = integerRange(dtype);
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i];
    if (typeof value !== "number" && typeof value !== "bigint") {
      throw wrongType(dtype, value, i, "a bigint or a safe integer");
    }
    if (typeof value === "number" && !Number.isSafeInteger(value))
      throw outOfRange(dtype, value, i);
    const exact = BigInt(value);
    if (exact < min || exact > max) throw outOfRange(dtype, value, i);
    target[i] = exact;
  }
  return target;
}

function bools(values: readonly unknown[]): Uint8Array {
  const target = new Uint8Array(values.length);
  for (let i = 0; i < values.length; i += 1) {
    const value = values[i];
    if (typeof value === "number" && value !== 0 && value !== 1) throw outOfRange("bool", value, i);
    if (typeof value !== "number" && typeof value !== "boolean")
      throw wrongType("bool", value, i, "a boolean, 0 or 1");
    target[i] = Number(value);
  }
  return target;
}

function integerRange(dtype: DType): { readonly min: bigint; readonly max: bigint } {
  const { kind, byteSize } = dtypeFacts(dtype);
  const bits = BigInt(byteSize) * 8n;
  if (kind === "uint") return { min: 0n, max: 2n ** bits - 1n };
  return { min: -(2n ** (bits - 1n)), max: 2n ** (bits - 1n) - 1n };
}

function outOfRange(dtype: DType, value: number | bigint, index: number): RangeError {
  const { min, max } = dtype === "bool" ? { min: 0n, max: 1n } : integerRange(dtype);
  const wanted =
    typeof value === "number" && dtypeFacts(dtype).byteSize === 8 ? ", exact or as a bigint" : "";
  return new RangeError(
    `Cannot take ${value} as ${dtype}: ` +
      `value ${index} must be an integer from ${min} to ${max}${wanted}`,
  );
}

function wrongType(dtype: DType, value: unknown, index: number, wanted: string): TypeError {
  const found = value === null ? "null" : typeof value;
  return new TypeError(
    `Cannot take values as ${dtype}: value ${index} is of type ${found}, wanted ${wanted}`,
  );
}
