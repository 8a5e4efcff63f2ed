/** The types of PTX and their arithmetic, for ptx-machine.ts. */

/**
 * Floats are numbers, integers of 64 bits unsigned bigints, others unsigned numbers, predicates
 * booleans.
 */
export type Value = number | bigint | boolean;

export interface Type {
  readonly kind: "u" | "s" | "b" | "f";
  readonly bits: number;
}

/** Half floats are bits here: nothing computes with them. */
export function isFloat({ kind, bits }: Type): boolean {
  return kind === "f" && bits > 16;
}

export function typeOf(text: string): Type {
  const [, kind, bits] = /^([usbf])(8|16|32|64)$/.exec(text) ?? unknown(`type ${text}`);
  return { kind: kind as Type["kind"], bits: Number(bits) };
}

export function immediate(text: string, type: Type): Value {
  if (text.startsWith("0f") || text.startsWith("0d"))
    return fromBits(type, BigInt(`0x${text.slice(2)}`));
  if (!/^(0x)?[0-9A-Fa-f]+$/.test(text)) unknown(text);
  return isFloat(type) ? Number(text) : stored(type, BigInt(text));
}

export function stored({ bits }: Type, value: number | bigint): Value {
  const wrapped = BigInt.asUintN(bits, BigInt(value));
  return bits === 64 ? wrapped : Number(wrapped);
}

const scratch = new DataView(new ArrayBuffer(8));

export function toBits(type: Type, value: number | bigint): bigint {
  if (!isFloat(type)) return BigInt(value);
  scratch.setBigUint64(0, 0n, true);
  writeAs(type, scratch, 0, value);
  return scratch.getBigUint64(0, true);
}

export function fromBits(type: Type, bits: bigint): Value {
  scratch.setBigUint64(0, bits, true);
  return readAs(type, scratch, 0);
}

export function readAs(type: Type, view: DataView, offset: number): number | bigint {
  if (isFloat(type))
    return type.bits === 32 ? view.getFloat32(offset, true) : view.getFloat64(offset, true);
  const signed = type.kind === "s";
  switch (type.bits) {
    case 8:
      return signed ? view.getInt8(offset) : view.getUint8(offset);
    case 16:
      return signed ? view.getInt16(offset, true) : view.getUint16(offset, true);
    case 32:
      return signed ? view.getInt32(offset, true) : view.getUint32(offset, true);
    default:
      return view.getBigUint64(offset, true);
  }
}

export function writeAs(type: Type, view: DataView, offset: number, value: Value): void {
  if (isFloat(type)) {
    if (type.bits === 32) view.setFloat32(offset, value as number, true);
    else view.setFloat64(offset, value as number, true);
  } else if (type.bits === 8) view.setUint8(offset, Number(value));
  else if (type.bits === 16) view.setUint16(offset, Number(value), true);
  else if (type.bits === 32) view.setUint32(offset, Number(value), true);
  else view.setBigUint64(offset, BigInt(value as number | bigint), true);
}

type Arithmetic = (a: never, b: never, c: never) => Value;

export const wideArithmetic: Readonly<Record<string, Arithmetic>> = {
  mul: (a: number, b: number) => BigInt(a) * BigInt(b),
  mad: (a: number, b: number, c: bigint) => BigInt.asUintN(64, BigInt(a) * BigInt(b) + c),
};

export function arithmetic(name: string, type: Type): Arithmetic | undefined {
  if (isFloat(type)) {
    const round = type.bits === 32 ? Math.fround : (value: number) => value;
    const operations: Readonly<Record<string, Arithmetic>> = {
      add: (a: number, b: number) => round(a + b),
      mul: (a: number, b: number) => round(a * b),
      min: (a: number, b: number) => Math.min(a, b),
      max: (a: number, b: number) => Math.max(a, b),
    };
    return operations[name];
  }
  if (type.bits === 32) return operations32[name];
  const order = (value: bigint) => (type.kind === "s" ? BigInt.asIntN(64, value) : value);
  const operations64: Readonly<Record<string, Arithmetic>> = {
    add: (a: bigint, b: bigint) => a + b,
    mul: (a: bigint, b: bigint) => a * b,
    mad: (a: bigint, b: bigint, c: bigint) => a * b + c,
    min: (a: bigint, b: bigint) => (order(a) < order(b) ? a : b),
    max: (a: bigint, b: bigint) => (order(a) > order(b) ? a : b),
  };
  return operations64[name];
}

const operations32: Readonly<Record<string, Arithmetic>> = {
  add: (a: number, b: number) => (a + b) >>> 0,
  mul: (a: number, b: number) => Math.imul(a, b) >>> 0,
  mad: (a: number, b: number, c: number) => (Math.imul(a, b) + c) >>> 0,
  and: (a: number, b: number) => (a & b) >>> 0,
  or: (a: number, b: number) => (a | b) >>> 0,
  xor: (a: number, b: number) => (a ^ b) >>> 0,
  shl: (a: number, b: number) => (a << b) >>> 0,
  shr: (a: number, b: number) => a >>> b,
};

export const relations: Readonly<Record<string, (a: Value, b: Value) => boolean>> = {
  lt: (a, b) => a < b,
  ge: (a, b) => a >= b,
  eq: (a, b) => a === b,
  ne: (a, b) => a !== b,
  nan: (a, b) => Number.isNaN(a) || Number.isNaN(b),
};

export function convert(value: number | bigint, from: Type, to: Type): Value {
  if (from.kind === "f" && from.bits === 16) return decodeHalf(value as number);
  if (to.kind === "f" && to.bits === 16) return encodeHalf(value as number);
  if (isFloat(to)) {
    const exact = from.kind === "s" ? BigInt.asIntN(from.bits, BigInt(value)) : value;
    // A conversion of 64 bits to float32 rounds twice. The kernels convert only indices below 2^53,
    // which the first rounding does not change.
    return to.bits === 32 ? Math.fround(Number(exact)) : Number(exact);
  }
  return stored(to, value);
}

/** Follows the definition of the format, independently of the package's own code. */
function decodeHalf(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const mantissa = bits & 1023;
  if (exponent === 31) return mantissa === 0 ? sign * Number.POSITIVE_INFINITY : Number.NaN;
  return exponent === 0
    ? sign * mantissa * 2 ** -24
    : sign * (1024 + mantissa) * 2 ** (exponent - 25);
}

function encodeHalf(value: number): number {
  if (Number.isNaN(value)) return 0x7fff;
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const magnitude = Math.abs(value);
  // From here on, values round to infinity instead of 65504.
  if (magnitude >= 65520) return sign | 0x7c00;
  const exponent = Math.max(-14, Math.floor(Math.log2(magnitude || 2 ** -24)));
  const quantum = 2 ** (exponent - 10);
  const units = roundHalfToEven(magnitude / quantum);
  // The units carry into the exponent, as the bits of the format do.
  return sign | (((exponent + 14) << 10) + units);
}

function roundHalfToEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}

export function unknown(what: string): never {
  throw new Error(`the PTX machine does not know ${what}`);
}
