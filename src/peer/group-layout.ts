/**
 * The memory in which the members of a group meet, in 64-bit little-endian words:
 *
 *   header    0: magic   8: version   16: members   24: unused, to 64
 *   rows      one of 64 bytes a rank, from 64 on; each is written by its own rank alone:
 *             0   arrived      barriers that it has entered, 0 before the first
 *             8   ended        0, or (first barrier that will not be) * 4096 + (rank concerned) * 4 + why:
 *                              1 left, 2 gave up, 3 saw that the rank concerned has died
 *             16  gathered     in barriers of even number: barrier * 2^20 + bytes in the slot
 *             24  gathered     in barriers of odd number
 *   slots     two a rank, for barriers of even and odd number, from the next multiple of 4096 on: what it gives to an all-gather
 *
 * Two slots are enough: who enters barrier n + 2 has passed n + 1, and then everybody has read what was gathered in n.
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

/** Places of words in a row. */
const rowWords = { arrived: 0, ended: 1, gatheredEven: 2, gatheredOdd: 3 } as const;

/** In the word `ended`, beside the barrier and the rank. */
export const endReasons = { left: 1n, gaveUp: 2n, sawDeath: 3n } as const;
export const END_REASONS = 4n;
export const END_RANKS = 1024n;

/** In the words `gathered`, beside the barrier. */
export const GATHERED_LENGTHS = 1n << 20n;

/** The index of a rank's word among all words of the memory. */
export function wordIndex(rank: number, word: "arrived" | "ended"): number {
  return (HEADER_BYTES + rank * ROW_BYTES) / WORD_BYTES + rowWords[word];
}

export function gatheredIndex(rank: number, barrier: number): number {
  const word = barrier % 2 === 0 ? rowWords.gatheredEven : rowWords.gatheredOdd;
  return (HEADER_BYTES + rank * ROW_BYTES) / WORD_BYTES + word;
}

/** Bytes of header and rows, which are words. */
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
