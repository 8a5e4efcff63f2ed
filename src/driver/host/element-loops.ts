/**
 * The loops of fill, iota and affine over a window of memory, for each dtype. They give the same
 * bits as the kernels in cuda/kernels: float32 is rounded after every operation, integers wrap
 * around, and NaN is one pattern.
 */
import { type ArithmeticDType, nanBits } from "../../array/arithmetic.js";
import { dtypes } from "../../array/dtype.js";
import { decodeToFloat32, encodeFromFloat32 } from "../../array/small-floats.js";

type BitsArray = Uint8Array | Uint16Array | Uint32Array;

/** @param value the bytes of an element */
export function fillLoop(value: Uint8Array): (to: ArrayBuffer) => void {
  const { buffer } = Uint8Array.from(value);
  if (value.byteLength === 8) {
    const word = new BigUint64Array(buffer)[0] as bigint;
    return (to) => void new BigUint64Array(to).fill(word);
  }
  const of = bitsArray(value.byteLength);
  const bits = new of(buffer)[0] as number;
  return (to) => void new of(to).fill(bits);
}

/**
 * to[i] = (index + i) * step + start.
 * @param start and step: bytes in the computing type
 */
export function iotaLoop(
  dtype: ArithmeticDType,
  start: Uint8Array,
  step: Uint8Array,
): (to: ArrayBuffer, index: number) => void {
  switch (dtype) {
    case "uint64":
    case "int64": {
      const [first, difference] = [word(start), word(step)];
      return (to, index) => {
        const target = new BigUint64Array(to);
        let value = BigInt.asUintN(64, first + difference * BigInt(index));
        for (let i = 0; i < target.length; i += 1) {
          target[i] = value;
          value = BigInt.asUintN(64, value + difference);
        }
      };
    }
    case "float64": {
      const [first, difference] = [float64(start), float64(step)];
      return (to, index) => {
        const target = new Float64Array(to);
        for (let i = 0; i < target.length; i += 1) target[i] = (index + i) * difference + first;
        settleFloat64(target);
      };
    }
    case "float32":
    case "float16":
    case "bfloat16": {
      const [first, difference] = [float32(start), float32(step)];
      return (to, index) => {
        const target = float32Target(dtype, to);
        for (let i = 0; i < target.length; i += 1) {
          target[i] = Math.fround(Math.fround(Math.fround(index + i) * difference) + first);
        }
        storeFloat32(dtype, to, target);
      };
    }
    default: {
      const [first, difference] = [uint32(start), uint32(step)];
      const of = bitsArray(dtypes[dtype].byteSize);
      return (to, index) => {
        const target = new of(to);
        for (let i = 0; i < target.length; i += 1)
          target[i] = Math.imul(index + i, difference) + first;
      };
    }
  }
}

/**
 * to[i] = a * from[i] + b.
 * @param a and b: bytes in the computing type
 */
export function affineLoop(
  dtype: ArithmeticDType,
  a: Uint8Array,
  b: Uint8Array,
): (to: ArrayBuffer, from: ArrayBuffer) => void {
  switch (dtype) {
    case "uint64":
    case "int64": {
      const [factor, summand] = [word(a), word(b)];
      return (to, from) => {
        const [target, source] = [new BigUint64Array(to), new BigUint64Array(from)];
        // A BigUint64Array keeps the low 64 bits.
        for (let i = 0; i < target.length; i += 1)
          target[i] = (source[i] as bigint) * factor + summand;
      };
    }
    case "float64": {
      const [factor, summand] = [float64(a), float64(b)];
      return (to, from) => {
        const [target, source] = [new Float64Array(to), new Float64Array(from)];
        for (let i = 0; i < target.length; i += 1)
          target[i] = (source[i] as number) * factor + summand;
        settleFloat64(target);
      };
    }
    case "float32":
    case "float16":
    case "bfloat16": {
      const [factor, summand] = [float32(a), float32(b)];
      return (to, from) => {
        const target = float32Target(dtype, to);
        const source =
          dtype === "float32"
            ? new Float32Array(from)
            : decodeToFloat32(dtype, new Uint16Array(from));
        for (let i = 0; i < target.length; i += 1) {
          target[i] = Math.fround(Math.fround((source[i] as number) * factor) + summand);
        }
        storeFloat32(dtype, to, target);
      };
    }
    default: {
      const [factor, summand] = [uint32(a), uint32(b)];
      const of = bitsArray(dtypes[dtype].byteSize);
      return (to, from) => {
        const [target, source] = [new of(to), new of(from)];
        for (let i = 0; i < target.length; i += 1)
          target[i] = Math.imul(source[i] as number, factor) + summand;
      };
    }
  }
}

type Float32Computed = "float32" | "float16" | "bfloat16";

/** The array for float32 results: the memory itself, or a buffer to encode from. */
function float32Target(dtype: Float32Computed, to: ArrayBuffer): Float32Array<ArrayBuffer> {
  return dtype === "float32" ? new Float32Array(to) : new Float32Array(to.byteLength / 2);
}

function storeFloat32(
  dtype: Float32Computed,
  to: ArrayBuffer,
  values: Float32Array<ArrayBuffer>,
): void {
  const bits = new Uint32Array(values.buffer);
  for (let i = 0; i < values.length; i += 1) if (Number.isNaN(values[i])) bits[i] = nanBits.float32;
  if (dtype !== "float32") new Uint16Array(to).set(encodeFromFloat32(dtype, values));
}

function settleFloat64(values: Float64Array<ArrayBuffer>): void {
  const bits = new BigUint64Array(values.buffer);
  for (let i = 0; i < values.length; i += 1) if (Number.isNaN(values[i])) bits[i] = nanBits.float64;
}

function bitsArray(elementBytes: number): new (buffer: ArrayBuffer) => BitsArray {
  if (elementBytes === 1) return Uint8Array;
  return elementBytes === 2 ? Uint16Array : Uint32Array;
}

const view = (bytes: Uint8Array) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
const uint32 = (bytes: Uint8Array) => view(bytes).getUint32(0, true);
const word = (bytes: Uint8Array) => view(bytes).getBigUint64(0, true);
const float32 = (bytes: Uint8Array) => view(bytes).getFloat32(0, true);
const float64 = (bytes: Uint8Array) => view(bytes).getFloat64(0, true);
