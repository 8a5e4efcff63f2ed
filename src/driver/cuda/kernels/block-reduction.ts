/**
 * The end of a reduction within a block: what each thread accumulated becomes one result of the block, which its first thread writes.
 * The host combines the blocks' results, so that no memory has to be prepared and nothing is atomic.
 *
 *   result   block 0                 block 1
 *            | acc 0 | acc 1 | ... | acc 0 | ...      8 bytes each
 *
 *   shared   acc 0 of thread 0 .. 255 | acc 1 of thread 0 .. 255 | ...
 */
import { BLOCK_THREADS } from "./grid-loop.js";

/** A register of 8 bytes that each thread accumulates in, and how two of them become one. */
export interface Accumulator {
  readonly register: string;
  readonly type: "u64" | "s64" | "f64";
  readonly initial: string;
  readonly combine: "add.u64" | "add.rn.f64" | "min.u64" | "max.u64" | "min.s64" | "max.s64" | "min.f64" | "max.f64";
}

const ROW_BYTES = 8 * BLOCK_THREADS;

export function accumulatorRegisters(accumulators: readonly Accumulator[]): string[] {
  return [
    ...accumulators.map(({ register, type }) => `.reg .${type} ${register}, ${register}Other;`),
    `.shared .align 8 .b8 shared[${accumulators.length * ROW_BYTES}];`,
    ".reg .u32 %mine, %partner, %halfBlock;",
    ".reg .u64 %slot;",
    ".reg .pred %idle, %again, %notFirst;",
  ];
}

/** Sets the registers before the loop. */
export function startAccumulators(accumulators: readonly Accumulator[]): string {
  return accumulators.map(({ register, type, initial }) => `  mov.${type} ${register}, ${initial};\n`).join("");
}

/** Combines the threads' registers, in halves, and writes those of the block to its place in `at_result`. */
export function combineAccumulators(accumulators: readonly Accumulator[]): string {
  const each = (line: (it: Accumulator, index: number) => string) =>
    accumulators.map((it, index) => `  ${line(it, index)}\n`).join("");
  return `  mov.u32 %mine, shared;
  mad.lo.u32 %mine, %thread, 8, %mine;
  mov.u32 %halfBlock, ${BLOCK_THREADS / 2};
HALVE:
  // Nobody writes before all have read what the round before left.
  bar.sync 0;
${each(({ register, type }, index) => `st.shared.${type} [%mine+${index * ROW_BYTES}], ${register};`)}  bar.sync 0;
  setp.ge.u32 %idle, %thread, %halfBlock;
  @%idle bra HALVED;
  mad.lo.u32 %partner, %halfBlock, 8, %mine;
${each(({ register, type }, index) => `ld.shared.${type} ${register}Other, [%partner+${index * ROW_BYTES}];`)}${each(
  ({ register, combine }) => `${combine} ${register}, ${register}, ${register}Other;`,
)}HALVED:
  shr.u32 %halfBlock, %halfBlock, 1;
  setp.ne.u32 %again, %halfBlock, 0;
  @%again bra HALVE;
  setp.ne.u32 %notFirst, %thread, 0;
  @%notFirst bra END;
  cvt.u64.u32 %slot, %block;
  mad.lo.u64 %slot, %slot, ${8 * accumulators.length}, %at_result;
${each(({ register, type }, index) => `st.global.${type} [%slot+${8 * index}], ${register};`)}END:
`;
}
