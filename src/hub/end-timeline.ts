/** Ends a timeline in memory that others wait on, in one of two ways: they must not be left waiting because one of them fails. */
import { readFilePart, writeFilePart } from "../os/file-calls.js";
import { withWords } from "../os/mapped-words.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { lineAt, poison, poisonFile } from "../wire/timeline-line.js";

/** SAFETY: the place was checked against the sealed memory when the timeline was created. */
export function endTimeline(memory: OwnedFd, byteOffset: number): void {
  try {
    withWords(memory, (words) => poison(lineAt(words, byteOffset)));
  } catch (error) {
    // WHY: there may be no room for another mapping while writing to the file needs none.
    try {
      poisonFile({
        read: (offset) => readWord(memory, byteOffset + offset),
        write: (offset, word) => writeFilePart(memory, bytesOf(word), byteOffset + offset),
      });
    } catch (secondError) {
      throw new AggregateError([error, secondError], "neither by its memory nor by its file");
    }
  }
}

function readWord(memory: OwnedFd, byteOffset: number): bigint {
  const word = new BigInt64Array(1);
  readFilePart(memory, new Uint8Array(word.buffer), byteOffset);
  return word[0] as bigint;
}

function bytesOf(word: bigint): Uint8Array {
  return new Uint8Array(BigInt64Array.of(word).buffer);
}
