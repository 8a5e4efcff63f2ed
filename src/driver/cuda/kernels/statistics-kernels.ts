/**
 * Extremes, sum and counts of elements. Integers are compared as 64-bit integers, floats as
 * float64. Sums are in float64. A sum may overflow although the mean does not, so a second sum adds
 * the elements scaled by 2^-64.
 */
import type { ArithmeticDType } from "../../../array/arithmetic.js";
import { dtypes } from "../../../array/dtype.js";
import {
  type Accumulator,
  accumulatorRegisters,
  combineAccumulators,
  startAccumulators,
} from "./block-reduction.js";
import { accessRegisters, addressOfElement, elementAccess, elementKind } from "./element-access.js";
import { gridLoop } from "./grid-loop.js";

export const SUM_SCALE = 2 ** -64;

export type Extremes = "u64" | "s64" | "f64";

export function extremesOf(dtype: ArithmeticDType): Extremes {
  const { kind } = dtypes[dtype];
  if (kind === "float") return "f64";
  return kind === "uint" ? "u64" : "s64";
}

/** The neutral values of each type. */
const initialExtremes: Readonly<Record<Extremes, { readonly min: string; readonly max: string }>> =
  {
    u64: { min: "0xFFFFFFFFFFFFFFFF", max: "0" },
    s64: { min: "0x7FFFFFFFFFFFFFFF", max: "0x8000000000000000" },
    f64: { min: "0d7FF0000000000000", max: "0dFFF0000000000000" },
  };

/** The results of a block have the same order. */
export const statisticsAccumulators = (type: Extremes): readonly Accumulator[] => [
  { register: "%min", type, initial: initialExtremes[type].min, combine: `min.${type}` },
  { register: "%max", type, initial: initialExtremes[type].max, combine: `max.${type}` },
  { register: "%sum", type: "f64", initial: "0d0000000000000000", combine: "add.rn.f64" },
  { register: "%scaled", type: "f64", initial: "0d0000000000000000", combine: "add.rn.f64" },
  { register: "%nans", type: "u64", initial: "0", combine: "add.u64" },
  { register: "%infinities", type: "u64", initial: "0", combine: "add.u64" },
  { register: "%zeros", type: "u64", initial: "0", combine: "add.u64" },
];

export function statisticsKernel(dtype: ArithmeticDType): string {
  const type = extremesOf(dtype);
  const accumulators = statisticsAccumulators(type);
  return gridLoop({
    name: `statistics_${dtype}`,
    parameters: [
      { name: "at_from", type: "u64" },
      { name: "count", type: "u64" },
      { name: "at_result", type: "u64" },
    ],
    registers: [
      `.reg .${type} %value;`,
      ".reg .f64 %term, %magnitude;",
      ".reg .pred %isZero, %isInfinite;",
      ...(type === "f64" ? accessRegisters(elementKind(dtype)) : [".reg .u64 %address;"]),
      ...accumulatorRegisters(accumulators),
    ],
    before: startAccumulators(accumulators),
    body: type === "f64" ? floatBody(dtype) : integerBody(dtype, type),
    after: combineAccumulators(accumulators),
  });
}

function integerBody(dtype: ArithmeticDType, type: "u64" | "s64"): string {
  const { byteSize } = dtypes[dtype];
  // Into a wider register a signed load extends the sign.
  return `${addressOfElement("%at_from", byteSize)}
  ld.global.${type.charAt(0)}${8 * byteSize} %value, [%address];
  min.${type} %min, %min, %value;
  max.${type} %max, %max, %value;
  setp.eq.${type} %isZero, %value, 0;
  @%isZero add.u64 %zeros, %zeros, 1;
  cvt.rn.f64.${type} %term, %value;
  add.rn.f64 %sum, %sum, %term;`;
}

function floatBody(dtype: ArithmeticDType): string {
  const { elementBytes, computeType, load } = elementAccess[elementKind(dtype)];
  return `${addressOfElement("%at_from", elementBytes)}
${load}
  ${computeType === "f32" ? "cvt.f64.f32" : "mov.f64"} %value, %x;
  setp.nan.f64 %isNan, %value, %value;
  @%isNan add.u64 %nans, %nans, 1;
  @%isNan bra NEXT;
  min.f64 %min, %min, %value;
  max.f64 %max, %max, %value;
  setp.eq.f64 %isZero, %value, 0d0000000000000000;
  @%isZero add.u64 %zeros, %zeros, 1;
  abs.f64 %magnitude, %value;
  setp.eq.f64 %isInfinite, %magnitude, 0d7FF0000000000000;
  @%isInfinite add.u64 %infinities, %infinities, 1;
  @%isInfinite bra NEXT;
  add.rn.f64 %sum, %sum, %value;${
    computeType === "f64"
      ? `
  mul.rn.f64 %term, %value, 0d3BF0000000000000; // 2^-64
  add.rn.f64 %scaled, %scaled, %term;`
      : ""
  }
NEXT:`;
}
