/**
 * Loads an element from memory into a register of its computing type, and stores it back.
 *
 *   bits      integers up to 32 bits in a register of 32 bits, modulo 2^32; others in one of 64
 *   float16   by the conversions of the GPU
 *   bfloat16  the upper half of a float32; there is no instruction for it on sm_50
 *
 * A NaN is stored as one pattern, because the NaN of the arithmetic differs between GPUs and CPUs.
 */
import {
  type ArithmeticDType,
  type ComputeType,
  computeType,
  nanBits,
} from "../../../array/arithmetic.js";
import { dtypes } from "../../../array/dtype.js";

/** The kinds of arithmetic kernels. Integers of one size share one. */
export type ElementKind = "b8" | "b16" | "b32" | "b64" | "f16" | "bf16" | "f32" | "f64";

export interface ElementAccess {
  readonly elementBytes: number;
  readonly computeType: ComputeType;
  /** Loads %x from the address in %address. */
  readonly load: string;
  /** Stores %x to the address in %address. */
  readonly store: string;
}

/** The registers that `load` and `store` use, %x included. */
export function accessRegisters(kind: ElementKind): string[] {
  return [
    `.reg .${elementAccess[kind].computeType} %x;`,
    ".reg .u64 %address, %wide;",
    ".reg .b32 %bits, %odd;",
    ".reg .b16 %half;",
    ".reg .pred %isNan;",
  ];
}

export function elementKind(dtype: ArithmeticDType): ElementKind {
  if (dtype === "float16") return "f16";
  if (dtype === "bfloat16") return "bf16";
  const type = computeType(dtype);
  return type === "f32" || type === "f64"
    ? type
    : (`b${8 * dtypes[dtype].byteSize}` as ElementKind);
}

const hex = (bits: number | bigint) => `0x${bits.toString(16).toUpperCase()}`;

export const elementAccess: Readonly<Record<ElementKind, ElementAccess>> = {
  b8: integer(1, "u8", "u32"),
  b16: integer(2, "u16", "u32"),
  b32: integer(4, "u32", "u32"),
  b64: integer(8, "u64", "u64"),
  f16: {
    elementBytes: 2,
    computeType: "f32",
    load: `  ld.global.b16 %half, [%address];
  cvt.f32.f16 %x, %half;`,
    store: `  setp.nan.f32 %isNan, %x, %x;
  cvt.rn.f16.f32 %half, %x;
  selp.b16 %half, ${hex(nanBits.float16)}, %half, %isNan;
  st.global.b16 [%address], %half;`,
  },
  bf16: {
    elementBytes: 2,
    computeType: "f32",
    load: `  ld.global.u16 %bits, [%address];
  shl.b32 %bits, %bits, 16;
  mov.b32 %x, %bits;`,
    // Rounds to nearest, ties to even: adds just under half of the last kept bit, and one more if
    // that bit is set.
    store: `  setp.nan.f32 %isNan, %x, %x;
  mov.b32 %bits, %x;
  shr.u32 %odd, %bits, 16;
  and.b32 %odd, %odd, 1;
  add.u32 %bits, %bits, 0x7FFF;
  add.u32 %bits, %bits, %odd;
  shr.u32 %bits, %bits, 16;
  selp.b32 %bits, ${hex(nanBits.bfloat16)}, %bits, %isNan;
  st.global.u16 [%address], %bits;`,
  },
  f32: {
    elementBytes: 4,
    computeType: "f32",
    load: "  ld.global.f32 %x, [%address];",
    store: `  setp.nan.f32 %isNan, %x, %x;
  mov.b32 %bits, %x;
  selp.b32 %bits, ${hex(nanBits.float32)}, %bits, %isNan;
  st.global.u32 [%address], %bits;`,
  },
  f64: {
    elementBytes: 8,
    computeType: "f64",
    load: "  ld.global.f64 %x, [%address];",
    store: `  setp.nan.f64 %isNan, %x, %x;
  mov.b64 %wide, %x;
  selp.b64 %wide, ${hex(nanBits.float64)}, %wide, %isNan;
  st.global.u64 [%address], %wide;`,
  },
};

/** A register may be wider than the loaded or stored value. */
function integer(elementBytes: number, type: string, computeType: ComputeType): ElementAccess {
  return {
    elementBytes,
    computeType,
    load: `  ld.global.${type} %x, [%address];`,
    store: `  st.global.${type} [%address], %x;`,
  };
}

/** Sets %address to the address of element %i of the array whose address is in the register. */
export function addressOfElement(start: string, elementBytes: number): string {
  return `  mad.lo.u64 %address, %i, ${elementBytes}, ${start};`;
}

/** The kinds, in the order of their kernels in the module. */
export const elementKinds = Object.keys(elementAccess) as ElementKind[];
