/** Words in a memory file to which others may write too, for a process that must neither wait for them nor end by what they do. */
import { readFilePart } from "./file-calls.js";
import { Mapping, PAGE_BYTES_MAX } from "./mapping.js";
import type { OwnMemory } from "./own-memory.js";
import type { OwnedFd } from "./owned-fd.js";

/** Where the words lie. The caller has checked that the file is that large and cannot be resized; the descriptor stays the caller's. */
export interface WordsPlace {
  readonly fd: OwnedFd;
  readonly byteOffset: number;
  readonly byteLength: number;
}

export class SharedWords {
  readonly #place: WordsPlace;
  readonly #ownMemory: OwnMemory;
  readonly #mappedFrom: number;
  #mapping: Mapping | undefined;

  constructor(place: WordsPlace, ownMemory: OwnMemory) {
    this.#place = place;
    this.#ownMemory = ownMemory;
    this.#mappedFrom = place.byteOffset - (place.byteOffset % PAGE_BYTES_MAX);
  }

  /** From `byteOffset` of the words on. */
  read(byteOffset: number, into: Uint8Array): void {
    const { fd, byteOffset: start } = this.#place;
    readFilePart(fd, into, start + byteOffset);
  }

  /**
   * An aligned word is copied at once.
   * WHY not a write to the file: it waits for every other write to it, and one whose bytes come from a page of FUSE lasts as long as its
   * author likes.
   */
  write(byteOffset: number, bytes: Uint8Array): void {
    const { fd, byteOffset: start, byteLength } = this.#place;
    const from = this.#mappedFrom;
    this.#mapping ??= Mapping.shared(fd, start + byteLength - from, "read-write", from);
    this.#ownMemory.write(this.#mapping.address + BigInt(start + byteOffset - from), bytes);
  }

  close(): void {
    this.#mapping?.close();
    this.#mapping = undefined;
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
