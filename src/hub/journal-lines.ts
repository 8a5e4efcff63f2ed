/**
 * The lines of a journal, from records to bytes and back.
 *
 *   {"t":"journal","version":2,"boot":"..."}      the head: for people, and for other versions
 *   3610a686 17 {"t":"released","lease":3}        checksum, number of the line, record
 *
 * The checksum covers the number, the record, the version and the boot. So each line proves by itself that a hub of this boot
 * wrote it. The numbers say in which order lines were written: a line that was copied or moved changes nothing.
 */
import { crc32 } from "node:zlib";
import type { StoredRecord } from "./hub-records.js";

export const JOURNAL_VERSION = 2;

const NEWLINE = 0x0a;
const SPACE = 0x20;
const ZERO = 0x30;
const CHECKSUM_DIGITS = 8;
const PIECE_BYTES = 4 * 1024 * 1024;

/** Reads the bytes at this place of a file: how many there were; 0 at its end. */
export type ReadPart = (into: Uint8Array, byteOffset: number) => number;

export interface JournalContents {
  readonly head: string;
  /** What lies behind the last whole line begins here. */
  readonly wholeBytes: number;
  /** Whether the file ends in the middle of a line. */
  readonly isTorn: boolean;
  readonly lines: number;
  readonly records: number;
  /** Lines whose checksum is wrong, and copies of others. */
  readonly damaged: number;
  /** The first of them, counted from 1. */
  readonly firstDamaged: readonly number[];
  /** How many lines are not there, as the numbers of the others show. */
  readonly missing: number;
  readonly lastNumber: number;
}

export class JournalLines {
  readonly head: string;
  readonly #seed: number;

  constructor(bootId: string) {
    this.head = JSON.stringify({ t: "journal", version: JOURNAL_VERSION, boot: bootId });
    this.#seed = crc32(this.head);
  }

  /** @param number larger than that of the line before */
  encode(number: number, json: string): string {
    const content = `${number} ${json}`;
    const checksum = crc32(content, this.#seed).toString(16).padStart(CHECKSUM_DIGITS, "0");
    return `${checksum} ${content}\n`;
  }

  /** Hands each record that is whole to `take`, in order. Holds one piece of the file at a time. */
  read(readPart: ReadPart, take: (record: StoredRecord) => void): JournalContents {
    const found = new Found(take);
    const piece = Buffer.allocUnsafe(PIECE_BYTES);
    let head: string | undefined;
    let isTooLong = false;
    let [kept, fileOffset, wholeBytes] = [0, 0, 0];
    for (;;) {
      const length = readPart(piece.subarray(kept), fileOffset);
      if (length === 0) break;
      fileOffset += length;
      const end = kept + length;
      let begin = 0;
      for (let at = lineEnd(piece, begin, end); at >= 0; at = lineEnd(piece, begin, end)) {
        if (head === undefined) head = isTooLong ? "" : piece.toString("utf8", begin, at);
        else if (isTooLong) found.damage();
        else this.#line(piece, begin, at, found);
        isTooLong = false;
        begin = at + 1;
      }
      if (begin > 0) wholeBytes = fileOffset - end + begin;
      piece.copyWithin(0, begin, end);
      kept = end - begin;
      // No hub writes a line as long as a piece.
      if (kept < PIECE_BYTES) continue;
      isTooLong = true;
      kept = 0;
    }
    found.finish();
    const { lines, records, damaged, firstDamaged, missing, lastNumber } = found;
    const facts = { lines, records, damaged, firstDamaged, missing, lastNumber };
    return { head: head ?? "", wholeBytes, isTorn: fileOffset > wholeBytes, ...facts };
  }

  #line(piece: Buffer, begin: number, end: number, found: Found): void {
    const from = begin + CHECKSUM_DIGITS + 1;
    const isWhole =
      end > from &&
      crc32(piece.subarray(from, end), this.#seed) === Number.parseInt(piece.toString("latin1", begin, from), 16);
    if (!isWhole) {
      found.damage();
      return;
    }
    let [number, at] = [0, from];
    for (; piece[at] !== SPACE; at += 1) number = number * 10 + (piece[at] ?? 0) - ZERO;
    // WHY no schema: the checksum says that a hub of this version wrote it.
    found.take(number, JSON.parse(piece.toString("utf8", at + 1, end)) as StoredRecord);
  }
}

function lineEnd(piece: Buffer, begin: number, end: number): number {
  const at = piece.indexOf(NEWLINE, begin);
  return at < end ? at : -1;
}

const NAMED_MAX = 10;

/** Passes on the records in the order of their numbers. */
class Found {
  lines = 0;
  records = 0;
  damaged = 0;
  missing = 0;
  lastNumber = 0;
  readonly firstDamaged: number[] = [];
  readonly #take: (record: StoredRecord) => void;
  /** All from the first gap on. Those that seem to be missing may still come. */
  readonly #later = new Map<number, StoredRecord>();

  constructor(take: (record: StoredRecord) => void) {
    this.#take = take;
  }

  take(number: number, record: StoredRecord): void {
    if (number <= this.lastNumber || this.#later.has(number)) {
      this.damage();
      return;
    }
    this.lines += 1;
    this.records += 1;
    if (number > this.lastNumber + 1) {
      this.#later.set(number, record);
      return;
    }
    this.lastNumber = number;
    this.#take(record);
  }

  damage(): void {
    this.lines += 1;
    this.damaged += 1;
    // The head is line 1.
    if (this.firstDamaged.length < NAMED_MAX) this.firstDamaged.push(this.lines + 1);
  }

  finish(): void {
    const first = this.lastNumber;
    for (const [number, record] of [...this.#later].sort(([one], [other]) => one - other)) {
      this.lastNumber = number;
      this.#take(record);
    }
    this.missing = this.lastNumber - first - this.#later.size;
  }
}
