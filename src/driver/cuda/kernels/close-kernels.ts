/**
 * Counts the elements that are not close, and finds the first, as numpy.isclose decides it. All
 * dtypes are computed in float64.
 */
import type { ArithmeticDType } from "../../../array/arithmetic.js";
import { dtypes } from "../../../array/dtype.js";
import { accumulatorRegisters, combineAccumulators, startAccumulators } from "./block-reduction.js";
import { compareAccumulators } from "./compare-kernels.js";
import { accessRegisters, addressOfElement, elementAccess, elementKind } from "./element-access.js";
import { gridLoop } from "./grid-loop.js";

export function closeKernel(dtype: ArithmeticDType): string {
  const isFloat = dtypes[dtype].kind === "float";
  const load = isFloat ? loadFloat : loadInteger;
  return gridLoop({
    name: `close_${dtype}`,
    parameters: [
      { name: "at_a", type: "u64" },
      { name: "at_b", type: "u64" },
      { name: "count", type: "u64" },
      { name: "rtol", type: "f64" },
      { name: "atol", type: "f64" },
      { name: "at_result", type: "u64" },
    ],
    registers: [
      ".reg .f64 %ofA, %ofB, %size, %gap, %bound;",
      ".reg .pred %same, %isFinite, %isClose;",
      ...(isFloat ? accessRegisters(elementKind(dtype)) : integerRegisters(dtype)),
      ...accumulatorRegisters(compareAccumulators),
    ],
    before: startAccumulators(compareAccumulators),
    // A comparison with NaN is false, so NaN differs from everything.
    body: `${load(dtype, "%at_a", "%ofA")}
${load(dtype, "%at_b", "%ofB")}
  setp.eq.f64 %same, %ofA, %ofB;
  @%same bra CLOSE;
  abs.f64 %size, %ofB;
  setp.lt.f64 %isFinite, %size, 0d7FF0000000000000;
  @!%isFinite bra DIFFERS;
  mul.rn.f64 %gap, %ofB, 0dBFF0000000000000; // -1
  add.rn.f64 %gap, %gap, %ofA;
  abs.f64 %gap, %gap;
  mul.rn.f64 %bound, %size, %rtol;
  add.rn.f64 %bound, %bound, %atol;
  setp.ge.f64 %isClose, %bound, %gap;
  @%isClose bra CLOSE;
DIFFERS:
  add.u64 %differences, %differences, 1;
  min.u64 %first, %first, %i;
CLOSE:`,
    after: combineAccumulators(compareAccumulators),
  });
}

function integerRegisters(dtype: ArithmeticDType): string[] {
  return [`.reg .${wideType(dtype)} %value;`, ".reg .u64 %address;"];
}

function loadInteger(dtype: ArithmeticDType, start: string, to: string): string {
  const { byteSize } = dtypes[dtype];
  const type = wideType(dtype);
  // Into a wider register a signed load extends the sign.
  return `${addressOfElement(start, byteSize)}
  ld.global.${type.charAt(0)}${8 * byteSize} %value, [%address];
  cvt.rn.f64.${type} ${to}, %value;`;
}

function wideType(dtype: ArithmeticDType): "u64" | "s64" {
  return dtypes[dtype].kind === "uint" ? "u64" : "s64";
}

function loadFloat(dtype: ArithmeticDType, start: string, to: string): string {
  const { elementBytes, computeType, load } = elementAccess[elementKind(dtype)];
  return `${addressOfElement(start, elementBytes)}
${load}
  ${computeType === "f32" ? "cvt.f64.f32" : "mov.f64"} ${to}, %x;`;
}
