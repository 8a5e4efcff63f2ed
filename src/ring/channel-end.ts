/**
 * The hub's changes to a channel's files when a reader or writer joins, leaves or dies. Each write
 * is of one aligned word, which the kernel copies at once. The caller rings the bells afterwards.
 */
import { LINE_BYTES, poisonFile } from "../base/timeline-line.js";
import {
  CLAIMS,
  control,
  page,
  READY_LINES,
  readerStates,
  writerStates,
} from "./channel-layout.js";

/** The bytes of a memory file. */
export interface WordsFile {
  read(byteOffset: number, bytes: Uint8Array): void;
  write(byteOffset: number, bytes: Uint8Array): void;
}

/**
 * What becomes of a channel without a writer: `awaited` if another may come, `removed` if its name
 * was removed, `gone` if no other will come.
 */
export type WithoutWriter = "awaited" | "removed" | "gone";

/**
 * Prepares a seat for a reader. Two things of the last reader stay: the end of its timeline, and
 * its sleep count, by which the writer knows for which sleep it has rung.
 */
export function beginSeat(file: WordsFile, lease: number): void {
  writeWord32(file, page.state, readerStates.none);
  for (const word of [page.released, page.gpuReleased, page.received, page.missed])
    writeWord(file, word, 0n);
  for (let claim = 0; claim < CLAIMS; claim += 1) writeWord(file, page.claims + claim * 8, 0n);
  writeWord32(file, page.mode, 0);
  endTimelineAt(file, page.done);
  writeWord(file, page.lease, BigInt(lease));
}

/**
 * Frees a seat. Call it when the reader has left or died and its GPU work has ended. The state of a
 * reader that left stays, so that the writer can tell it from one that died.
 */
export function endSeat(file: WordsFile): void {
  endTimelineAt(file, page.done);
  if (readWord32(file, page.state) !== readerStates.left)
    writeWord32(file, page.state, readerStates.none);
  writeWord(file, page.lease, 0n);
}

/**
 * Ends the writer's part. Call it when the writer is gone and its GPU work has ended. If the name
 * of an awaited channel was removed, the channel is closed: its readers see a normal end.
 * Returns false if the writer had ended the channel itself. Then only lost GPU work is marked.
 */
export function endWriter(file: WordsFile, next: WithoutWriter): boolean {
  const epoch = readWord32(file, control.epoch);
  endTimelineAt(file, control.ready + (epoch % READY_LINES) * LINE_BYTES);
  const before = readWord32(file, control.state);
  if (before === writerStates.closed) return false;
  // SYNC: after the end of its timeline. A process that sees the state finds what was finished.
  // Pairs with the load in `ControlWords.state`.
  writeWord32(file, control.state, writerStates[stateAfter(before, next)]);
  return true;
}

/** Whether the writer closed the channel itself, or a removed name did. */
export function isClosedInFile(file: Pick<WordsFile, "read">): boolean {
  return readWord32(file, control.state) === writerStates.closed;
}

function stateAfter(before: number, next: WithoutWriter): "awaited" | "closed" | "gone" {
  if (next !== "removed") return next;
  return before === writerStates.awaited ? "closed" : "gone";
}

function endTimelineAt(file: WordsFile, byteOffset: number): void {
  poisonFile({
    read: (at, into) => file.read(byteOffset + at, into),
    write: (at, bytes) => file.write(byteOffset + at, bytes),
  });
}

function writeWord(file: WordsFile, byteOffset: number, word: bigint): void {
  file.write(byteOffset, new Uint8Array(BigInt64Array.of(word).buffer));
}

function readWord32(file: Pick<WordsFile, "read">, byteOffset: number): number {
  const word = new Uint32Array(1);
  file.read(byteOffset, new Uint8Array(word.buffer));
  return word[0] as number;
}

function writeWord32(file: WordsFile, byteOffset: number, word: number): void {
  file.write(byteOffset, new Uint8Array(Uint32Array.of(word).buffer));
}
