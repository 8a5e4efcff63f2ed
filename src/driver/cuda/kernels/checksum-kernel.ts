/**
 * The checksum of operation-calls.ts: the sum of mix32(word[i] + i * 0x9E3779B1). The first `whole`
 * words are loaded as words, the rest byte by byte. If the address is not a multiple of 4, `whole`
 * is 0.
 */
import {
  type Accumulator,
  accumulatorRegisters,
  combineAccumulators,
  startAccumulators,
} from "./block-reduction.js";
import { gridLoop } from "./grid-loop.js";

export const checksumAccumulators: readonly Accumulator[] = [
  { register: "%sum", type: "u64", initial: "0", combine: "add.u64" },
];

export const checksumKernel = gridLoop({
  name: "checksum",
  parameters: [
    { name: "at_from", type: "u64" },
    { name: "count", type: "u64" },
    { name: "whole", type: "u64" },
    { name: "bytes", type: "u64" },
    { name: "at_result", type: "u64" },
  ],
  registers: [
    ".reg .u64 %address, %position, %wide;",
    ".reg .u32 %word, %byte, %index, %shifted;",
    ".reg .pred %isWhole, %isThere;",
    ...accumulatorRegisters(checksumAccumulators),
  ],
  before: startAccumulators(checksumAccumulators),
  body: `  mul.lo.u64 %position, %i, 4;
  add.u64 %address, %at_from, %position;
  setp.lt.u64 %isWhole, %i, %whole;
  @!%isWhole bra BYTES;
  ld.global.u32 %word, [%address];
  bra MIX;
BYTES:
  mov.u32 %word, 0;
${[0, 1, 2, 3].map(byteOfWord).join("")}MIX:
  cvt.u32.u64 %index, %i;
  mad.lo.u32 %word, %index, 0x9E3779B1, %word;
  shr.u32 %shifted, %word, 16;
  xor.b32 %word, %word, %shifted;
  mul.lo.u32 %word, %word, 0x85EBCA6B;
  shr.u32 %shifted, %word, 13;
  xor.b32 %word, %word, %shifted;
  mul.lo.u32 %word, %word, 0xC2B2AE35;
  shr.u32 %shifted, %word, 16;
  xor.b32 %word, %word, %shifted;
  cvt.u64.u32 %wide, %word;
  add.u64 %sum, %sum, %wide;`,
  after: combineAccumulators(checksumAccumulators),
});

/** Adds byte k of the word, if it is within the memory. */
function byteOfWord(k: number): string {
  return `  add.u64 %wide, %position, ${k};
  setp.lt.u64 %isThere, %wide, %bytes;
  mov.u32 %byte, 0;
  @%isThere ld.global.u8 %byte, [%address+${k}];
  shl.b32 %byte, %byte, ${8 * k};
  or.b32 %word, %word, %byte;
`;
}
