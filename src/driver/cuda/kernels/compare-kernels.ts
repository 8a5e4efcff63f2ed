/**
 * Counts the elements whose bits differ, and finds the first. An element is `units` units of 1, 2,
 * 4 or 8 bytes, so it may be larger than its alignment.
 */
import {
  type Accumulator,
  accumulatorRegisters,
  combineAccumulators,
  startAccumulators,
} from "./block-reduction.js";
import { gridLoop } from "./grid-loop.js";

export const compareAccumulators: readonly Accumulator[] = [
  { register: "%differences", type: "u64", initial: "0", combine: "add.u64" },
  { register: "%first", type: "u64", initial: "0xFFFFFFFFFFFFFFFF", combine: "min.u64" },
];

export const compareUnits = [1, 2, 4, 8] as const;
export type CompareUnit = (typeof compareUnits)[number];

export function compareKernel(unitBytes: CompareUnit): string {
  const type = `u${8 * unitBytes}`;
  const register = unitBytes === 8 ? "u64" : "u32";
  return gridLoop({
    name: `compare_${unitBytes}`,
    parameters: [
      { name: "at_a", type: "u64" },
      { name: "at_b", type: "u64" },
      { name: "count", type: "u64" },
      { name: "units", type: "u32" },
      { name: "at_result", type: "u64" },
    ],
    registers: [
      `.reg .${register} %ofA, %ofB;`,
      ".reg .u64 %offset, %addressA, %addressB, %elementBytes;",
      ".reg .u32 %unit;",
      ".reg .pred %differs, %nextUnit;",
      ...accumulatorRegisters(compareAccumulators),
    ],
    before: `  mul.wide.u32 %elementBytes, %units, ${unitBytes};
${startAccumulators(compareAccumulators)}`,
    body: `  mul.lo.u64 %offset, %i, %elementBytes;
  add.u64 %addressA, %at_a, %offset;
  add.u64 %addressB, %at_b, %offset;
  mov.u32 %unit, 0;
UNIT:
  ld.global.${type} %ofA, [%addressA];
  ld.global.${type} %ofB, [%addressB];
  setp.ne.${register} %differs, %ofA, %ofB;
  @%differs bra DIFFERS;
  add.u64 %addressA, %addressA, ${unitBytes};
  add.u64 %addressB, %addressB, ${unitBytes};
  add.u32 %unit, %unit, 1;
  setp.lt.u32 %nextUnit, %unit, %units;
  @%nextUnit bra UNIT;
  bra EQUAL;
DIFFERS:
  add.u64 %differences, %differences, 1;
  min.u64 %first, %first, %i;
EQUAL:`,
    after: combineAccumulators(compareAccumulators),
  });
}
