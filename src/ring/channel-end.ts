/**
 * The hub's changes to a channel's files when a reader or writer joins, leaves or dies. Each write is
 * of one aligned word, which the kernel copies at once. The caller rings the bells afterwards.
 */
import { LINE_BYTES, poisonFile } from "../base/timeline-line.js";
import { CLAIMS, control, page, READY_LINES, readerStates, writerStates } from "./channel-layout.js";

/** A memory file, by its bytes. */
export interface WordsFile {
  read(byteOffset: number, bytes: Uint8Array): void;
  write(byteOffset: number, bytes: Uint8Array): void;
}

/** What is left of a channel without a writer: another may come, nobody can come since its name was taken away, or nobody will. */
export type WithoutWriter = "awaited" | "removed" | "gone";

/**
 * A place is given to a reader: nothing of an earlier reader is left but the end of its timeline, and the count of its sleeps, by which
 * the writer knows for which it has rung.
 */
export function beginPlace(file: WordsFile, lease: number): void {
  writeWord32(file, page.state, readerStates.none);
  for (const word of [page.released, page.gpuReleased, page.received, page.missed]) writeWord(file, word, 0n);
  for (let claim = 0; claim < CLAIMS; claim += 1) writeWord(file, page.claims + claim * 8, 0n);
  writeWord32(file, page.mode, 0);
  endTimelineAt(file, page.done);
  writeWord(file, page.lease, BigInt(lease));
}

/** The reader has left or is dead, and its GPU work has ended: what it held is free again. */
export function endPlace(file: WordsFile): void {
  endTimelineAt(file, page.done);
  writeWord32(file, page.state, readerStates.none);
  writeWord(file, page.lease, 0n);
}

/**
 * The writer is gone, and its GPU work has ended: nobody waits for what it had not finished. One that was removed while another writer
 * could come is closed: who took its name away has ended it, and nobody died on its readers.
 * False where the writer had ended the channel itself, which stays as it is but for GPU work that was lost.
 */
export function endWriter(file: WordsFile, next: WithoutWriter): boolean {
  const epoch = readWord32(file, control.epoch);
  endTimelineAt(file, control.ready + (epoch % READY_LINES) * LINE_BYTES);
  const before = readWord32(file, control.state);
  if (before === writerStates.closed) return false;
  // SYNC: after the end of its timeline, so that who sees the state finds what was finished. Pairs with the load in `ControlWords.state`.
  writeWord32(file, control.state, writerStates[stateAfter(before, next)]);
  return true;
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

function readWord32(file: WordsFile, byteOffset: number): number {
  const word = new Uint32Array(1);
  file.read(byteOffset, new Uint8Array(word.buffer));
  return word[0] as number;
}

function writeWord32(file: WordsFile, byteOffset: number, word: number): void {
  file.write(byteOffset, new Uint8Array(Uint32Array.of(word).buffer));
}
