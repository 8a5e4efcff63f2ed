/**
 * The shared memory of a group, in 64-bit little-endian words:
 *
 *   header    0: magic   8: version   16: members   24: unused, to 64
 *   rows      64 bytes for each rank, from byte 64 on; only its own rank writes to a row:
 *             0   arrived      barriers that the rank has entered; 0 before the first
 *             8   ended        0, or first barrier it misses * 4096 + rank concerned * 4 + reason:
 *                              1 left, 2 gave up, 3 saw that the rank concerned died
 *             16  gathered     at even barriers: barrier * 2^20 + bytes in the slot
 *             24  gathered     at odd barriers
 *   slots     two for each rank, for even and odd barriers, from the next multiple of 4096 on:
 *             the value that the rank gives to an all-gather
 *
 * Two slots are enough: a member that enters barrier n + 2 has passed n + 1, so all have read the
 * values of n.
 */
import { roundUp } from "../base/bytes.js";
import { limits } from "../base/limits.js";

export const GROUP_MAGIC = 0x6375_6461_6970_6367n;
export const GROUP_VERSION = 1n;

const WORD_BYTES = 8;
const HEADER_BYTES = 64;
const ROW_BYTES = 64;
const SLOT_BYTES = limits.gatherBytesMax;
const ALIGNMENT_BYTES = 4096;

/** Indices of words in the header. */
export const headerWords = { magic: 0, version: 1, size: 2 } as const;

/** Indices of words in a row. */
const rowWords = { arrived: 0, ended: 1, gatheredEven: 2, gatheredOdd: 3 } as const;

/** Reasons in the word `ended`. */
export const endReasons = { left: 1n, gaveUp: 2n, sawDeath: 3n } as const;
export const END_REASONS = 4n;
export const END_RANKS = 1024n;

/** Values of `gathered` are multiples of this for the barrier, plus a length. */
export const GATHERED_LENGTHS = 1n << 20n;

/** The index of a rank's word among all words of the memory. */
export function wordIndex(rank: number, word: "arrived" | "ended"): number {
  return (HEADER_BYTES + rank * ROW_BYTES) / WORD_BYTES + rowWords[word];
}

export function gatheredIndex(rank: number, barrier: number): number {
  const word = barrier % 2 === 0 ? rowWords.gatheredEven : rowWords.gatheredOdd;
  return (HEADER_BYTES + rank * ROW_BYTES) / WORD_BYTES + word;
}

/** Bytes of the header and the rows. */
export function wordsByteLength(size: number): number {
  return HEADER_BYTES + size * ROW_BYTES;
}

export function slotOffset(size: number, rank: number, barrier: number): number {
  return roundUp(wordsByteLength(size), ALIGNMENT_BYTES) + (rank * 2 + (barrier % 2)) * SLOT_BYTES;
}

/** Bytes of the whole memory. */
export function groupByteLength(size: number): number {
  return slotOffset(size, size, 0);
}
