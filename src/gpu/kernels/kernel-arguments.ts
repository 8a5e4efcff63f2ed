/**
 * Encodes kernel arguments as bytes. Drivers know the size of a parameter but not its type, so a
 * number needs an explicit type: `arg.f32(1.5)`, `arg.i32(-1)`.
 */
import { encodeFromFloat32 } from "../../array/small-floats.js";
import { DeviceArray } from "../arrays/device-array.js";
import type { Device } from "../device.js";
import { DeviceBuffer } from "../memory/device-buffer.js";

/** An argument with an explicit type; made by `arg`. */
export class TypedArgument {
  readonly type: string;
  readonly bytes: Uint8Array;

  /** Use `arg`. */
  constructor(type: string, bytes: Uint8Array) {
    this.type = type;
    this.bytes = bytes;
  }
}

/**
 * An argument of `kernel.launch`:
 * - a DeviceBuffer or DeviceArray: passes the address of its first byte or element. Strides are not
 *   passed.
 * - a bigint: passes 8 bytes, for a pointer or a 64-bit integer, signed or not.
 * - a result of `arg`: for everything else. A plain number is a TypeError, because it could be an
 *   int or a float.
 */
export type KernelArgument = TypedArgument | DeviceBuffer | DeviceArray | bigint;

/**
 * Values are encoded here and then copied out. WHY: a small byte array is cheap because its memory
 * is on JavaScript's heap. A view of a typed array's memory takes as long to make as a kernel
 * launch.
 */
const word = new DataView(new ArrayBuffer(8));
const wordBytes = new Uint8Array(word.buffer);

function wordAsBytes(byteLength: number): Uint8Array {
  const bytes = new Uint8Array(byteLength);
  for (let i = 0; i < byteLength; i += 1) bytes[i] = wordBytes[i] as number;
  return bytes;
}

function integer(
  type: string,
  byteLength: 1 | 2 | 4 | 8,
  signed: boolean,
): (value: number | bigint) => TypedArgument {
  const bits = BigInt(8 * byteLength);
  const min = signed ? -(2n ** (bits - 1n)) : 0n;
  const max = signed ? 2n ** (bits - 1n) - 1n : 2n ** bits - 1n;
  return (value) =>
    new TypedArgument(type, integerBytes(`arg.${type}`, value, byteLength, min, max));
}

function integerBytes(
  what: string,
  value: number | bigint,
  byteLength: number,
  min: bigint,
  max: bigint,
): Uint8Array {
  if (typeof value !== "number" && typeof value !== "bigint") {
    throw new TypeError(`${what} must be a number or a bigint, not ${typeof value}`);
  }
  if (typeof value === "number" && !Number.isSafeInteger(value)) {
    throw new RangeError(`${what} must be an exact integer (a bigint beyond 2^53), not ${value}`);
  }
  const exact = BigInt(value);
  if (exact < min || exact > max)
    throw new RangeError(`${what} must be from ${min} to ${max}, not ${exact}`);
  word.setBigUint64(0, exact, true);
  return wordAsBytes(byteLength);
}

/** @param store writes the value to `word` */
function float(
  type: string,
  byteLength: 2 | 4 | 8,
  store: (value: number) => void,
): (value: number) => TypedArgument {
  return (value) => {
    if (typeof value !== "number")
      throw new TypeError(`arg.${type} must be a number, not ${typeof value}`);
    store(value);
    return new TypedArgument(type, wordAsBytes(byteLength));
  };
}

function storeSmall(dtype: "float16" | "bfloat16", value: number): void {
  const encoded = encodeFromFloat32(dtype, [value]);
  wordBytes.set(new Uint8Array(encoded.buffer, encoded.byteOffset, encoded.byteLength));
}

/**
 * Makes typed arguments, named as in PTX. Integers out of range throw a RangeError. Floats are
 * rounded to the nearest value.
 *
 * @example
 * const args = [array, arg.u32(array.elementCount), arg.f32(1.5)];
 * kernel.launch({ grid: 64, block: 256, args, stream });
 */
export const arg = {
  i8: integer("i8", 1, true),
  u8: integer("u8", 1, false),
  i16: integer("i16", 2, true),
  u16: integer("u16", 2, false),
  i32: integer("i32", 4, true),
  u32: integer("u32", 4, false),
  i64: integer("i64", 8, true),
  u64: integer("u64", 8, false),
  f16: float("f16", 2, (value) => storeSmall("float16", value)),
  bf16: float("bf16", 2, (value) => storeSmall("bfloat16", value)),
  f32: float("f32", 4, (value) => word.setFloat32(0, value, true)),
  f64: float("f64", 8, (value) => word.setFloat64(0, value, true)),
  /** A C++ bool: one byte. */
  bool(value: boolean): TypedArgument {
    if (typeof value !== "boolean")
      throw new TypeError(`arg.bool must be a boolean, not ${typeof value}`);
    return new TypedArgument("bool", Uint8Array.of(value ? 1 : 0));
  },
  /** A device address. You must keep its memory until the kernel is done. */
  pointer: integer("pointer", 8, false),
  /** A struct by value: its bytes including padding, copied by this call. */
  bytes(value: Uint8Array): TypedArgument {
    if (!(value instanceof Uint8Array))
      throw new TypeError(`arg.bytes must be a Uint8Array, not ${typeof value}`);
    return new TypedArgument("bytes", Uint8Array.from(value));
  },
} as const;

export interface EncodedArguments {
  readonly bytes: readonly Uint8Array[];
  /** The buffers whose addresses are passed to the kernel. */
  readonly buffers: readonly DeviceBuffer[];
}

/** @throws TypeError for an invalid argument or memory of another device; CLOSED, RangeError */
export function encodeArguments(
  attempt: string,
  args: readonly KernelArgument[],
  device: Device,
): EncodedArguments {
  const buffers: DeviceBuffer[] = [];
  // WHY a function: building the text takes longer than encoding the bytes.
  const what = (index: number) => `Cannot ${attempt}: argument ${index}`;
  const bytes = args.map((value, index) => {
    if (value instanceof TypedArgument) return value.bytes;
    if (typeof value === "bigint") {
      if (value < BIGINT_MIN || value > BIGINT_MAX)
        integerBytes(what(index), value, 8, BIGINT_MIN, BIGINT_MAX);
      word.setBigUint64(0, value, true);
      return wordAsBytes(8);
    }
    if (!(value instanceof DeviceBuffer) && !(value instanceof DeviceArray))
      throw noArgument(what(index), value);
    const [buffer, byteOffset] =
      value instanceof DeviceArray ? [value.buffer, value.layout.byteOffset] : [value, 0];
    if (buffer.device !== device && buffer.device.uuid !== device.uuid) {
      throw new TypeError(
        `${what(index)} is memory of ${buffer.device.name}, wanted memory of ${device.name}; if ` +
          `${device.name} can access it, pass its address (arg.pointer)`,
      );
    }
    buffers.push(buffer);
    const { pointer } = buffer;
    word.setBigUint64(0, byteOffset === 0 ? pointer : pointer + BigInt(byteOffset), true);
    return wordAsBytes(8);
  });
  return { bytes, buffers };
}

const BIGINT_MIN = -(2n ** 63n);
const BIGINT_MAX = 2n ** 64n - 1n;

function noArgument(what: string, value: unknown): TypeError {
  const found =
    typeof value === "number"
      ? `the number ${value}`
      : value === null
        ? "null"
        : `of type ${typeof value}`;
  return new TypeError(
    `${what} is ${found}, wanted memory, a bigint or a typed argument such as arg.i32(1) or ` +
      "arg.f32(1)",
  );
}
