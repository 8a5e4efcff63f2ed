/**
 * The end of a reduction within a block: the accumulators of all threads become one result, which
 * the first thread writes. The host combines the results of the blocks, so no memory needs to be
 * prepared and nothing is atomic.
 *
 *   result   block 0                 block 1
 *            | acc 0 | acc 1 | ... | acc 0 | ...      8 bytes each
 *
 *   shared   acc 0 of thread 0 .. 255 | acc 1 of thread 0 .. 255 | ...
 */
import { BLOCK_THREADS } from "./grid-loop.js";

/** A register of 8 bytes in which each thread accumulates, and how two of them are combined. */
export interface Accumulator {
  readonly register: string;
  readonly type: "u64" | "s64" | "f64";
  readonly initial: string;
  readonly combine:
    | "add.u64"
    | "add.rn.f64"
    | "min.u64"
    | "max.u64"
    | "min.s64"
    | "max.s64"
    | "min.f64"
    | "max.f64";
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
  return accumulators
    .map(({ register, type, initial }) => `  mov.${type} ${register}, ${initial};\n`)
    .join("");
}

/** Combines the threads' registers by halving, and writes the block's result into `at_result`. */
export function combineAccumulators(accumulators: readonly Accumulator[]): string {
  const each = (line: (it: Accumulator, index: number) => string) =>
    accumulators.map((it, index) => `  ${line(it, index)}\n`).join("");
  const stores = each(
    ({ register, type }, index) => `st.shared.${type} [%mine+${index * ROW_BYTES}], ${register};`,
  );
  const loads = each(({ register, type }, index) => {
    const from = `[%partner+${index * ROW_BYTES}]`;
    return `ld.shared.${type} ${register}Other, ${from};`;
  });
  const combinations = each(
    ({ register, combine }) => `${combine} ${register}, ${register}, ${register}Other;`,
  );
  return `  mov.u32 %mine, shared;
  mad.lo.u32 %mine, %thread, 8, %mine;
  mov.u32 %halfBlock, ${BLOCK_THREADS / 2};
HALVE:
  // Waits until all threads have read the previous round.
  bar.sync 0;
${stores}  bar.sync 0;
  setp.ge.u32 %idle, %thread, %halfBlock;
  @%idle bra HALVED;
  mad.lo.u32 %partner, %halfBlock, 8, %mine;
${loads}${combinations}HALVED:
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
