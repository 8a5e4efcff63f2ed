/**
 * The lines of a journal, from records to bytes and back.
 *
 *   {"t":"journal","version":3,"boot":"..."}      the head: for people, and for other versions
 *   3610a686 17 {"t":"released","lease":3}        checksum, number of the line, record
 *
 * The checksum covers the number, the record, the version and the boot. So each line proves by
 * itself that a hub of this boot wrote it. The numbers give the order in which lines were written,
 * so a line that was copied or moved changes nothing.
 */
import { crc32 } from "node:zlib";
import { CudaIpcError } from "../../base/errors.js";
import type { Log } from "../../base/log-events.js";
import type { StoredRecord } from "./hub-records.js";

const JOURNAL_VERSION = 3;

const NEWLINE = 0x0a;
const SPACE = 0x20;
const ZERO = 0x30;
const CHECKSUM_DIGITS = 8;
const PIECE_BYTES = 4 * 1024 * 1024;

/** Reads bytes at this offset of a file. Returns how many there were, 0 at the end. */
export type ReadPart = (into: Uint8Array, byteOffset: number) => number;

export interface JournalContents {
  readonly head: string;
  /** The offset behind the last complete line. */
  readonly wholeBytes: number;
  /** Whether the file ends in the middle of a line. */
  readonly isTorn: boolean;
  readonly lines: number;
  readonly records: number;
  /** Lines with a wrong checksum, and copies of other lines. */
  readonly damaged: number;
  /** The numbers of the first of them, counted from 1. */
  readonly firstDamaged: readonly number[];
  /** How many lines are missing, by the numbers of the others. */
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

  /** Passes each complete record to `take`, in order. Holds one piece of the file at a time. */
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
      crc32(piece.subarray(from, end), this.#seed) ===
        Number.parseInt(piece.toString("latin1", begin, from), 16);
    if (!isWhole) {
      found.damage();
      return;
    }
    let [number, at] = [0, from];
    for (; piece[at] !== SPACE; at += 1) number = number * 10 + (piece[at] ?? 0) - ZERO;
    // No schema is needed: the checksum proves that a hub of this version wrote it.
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
  /** The records from the first gap on. The missing ones may still come. */
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

/**
 * Whether the journal can be used. Logs what is lost.
 * @throws HUB_UNAVAILABLE if another version wrote it since the machine started: its names still
 * count, and this version cannot read them
 */
export function isOfThisBoot(
  path: string,
  found: JournalContents,
  { head }: JournalLines,
  bootId: string,
  log: Log,
): boolean {
  const isOurs = found.head === head;
  if (!isOurs && found.records === 0) {
    if (found.lines > 0 && bootOf(found.head) === bootId) throw otherVersion(path, found);
    if (found.head !== "" || found.isTorn) {
      const message = `does not use ${path}: it is of another boot, or nothing in it can be read`;
      log("journal-not-used", message, { path });
    }
    return false;
  }
  const warn = (message: string, count: number) => log("journal-damaged", message, { path, count });
  if (!isOurs) warn(`line 1 of ${path} is damaged; the others say that they are of this boot`, 1);
  if (found.damaged > 0) {
    const { damaged, firstDamaged } = found;
    const more = damaged > firstDamaged.length ? " and others" : "";
    const list = `${firstDamaged.join(", ")}${more}`;
    warn(`left out ${damaged} damaged lines of ${path}: line ${list}`, damaged);
  }
  const { missing } = found;
  if (missing > 0) warn(`${missing} lines of ${path} are missing`, missing);
  return true;
}

/** Undefined if the line is not a head. */
function bootOf(head: string): unknown {
  try {
    const value: unknown = JSON.parse(head);
    if (
      typeof value === "object" &&
      value !== null &&
      "version" in value &&
      value.version !== JOURNAL_VERSION
    )
      return "boot" in value ? value.boot : undefined;
  } catch {
    // Damaged.
  }
  return undefined;
}

function otherVersion(path: string, { lines }: JournalContents): CudaIpcError {
  const found = `another version of cuda-ipc wrote its ${lines} lines since the machine started`;
  const remedy =
    "Start that version to keep the names, or move the file away to start without them.";
  return new CudaIpcError("HUB_UNAVAILABLE", `Cannot read "${path}": ${found}. ${remedy}`);
}
