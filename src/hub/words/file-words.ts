/**
 * The hub's reads and writes of words in the memory files of timelines and channels. Any client may
 * have made these files. Their sizes were checked and are sealed, so the writes stay within them.
 *
 * A write may wait: it maps the file, and takes locks that every user of the file can hold for
 * long. The looks never wait.
 */
import {
  awaitOwnerInFile,
  hasEndedInFile,
  LINE_BYTES,
  poisonFile,
} from "../../base/timeline-line.js";
import { ringBell } from "../../os/bell.js";
import { inspectMemoryFile, reopenWritable } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { OwnMemory, UntrustedWords } from "../../os/untrusted-words.js";
import {
  beginSeat,
  endSeat,
  endWriter,
  isClosedInFile,
  type WithoutWriter,
} from "../../ring/channel-end.js";
import { HEADERS_AT, PAGE_BYTES } from "../../ring/channel-layout.js";

/** What to write into a file. `ring` rings a bell instead: the descriptor is then the bell. */
export type WordOrder =
  | { readonly op: "endTimeline" | "awaitOwner"; readonly byteOffset: number }
  | { readonly op: "beginSeat"; readonly lease: number }
  | { readonly op: "endSeat" | "ring" }
  | { readonly op: "endWriter"; readonly next: WithoutWriter };

export class FileWords {
  // Opened at the start: with a full table of open files the hub must still end what a dead client
  // owned.
  readonly #ownMemory = new OwnMemory();

  /** @returns what `look` returns */
  write(file: OwnedFd, order: WordOrder): boolean {
    switch (order.op) {
      case "endTimeline": {
        using line = this.#wordsOf(file, LINE_BYTES, order.byteOffset);
        poisonFile(line);
        return true;
      }
      case "awaitOwner": {
        using line = this.#wordsOf(file, LINE_BYTES, order.byteOffset);
        return awaitOwnerInFile(line);
      }
      case "beginSeat": {
        using words = this.#wordsOf(file, PAGE_BYTES);
        beginSeat(words, order.lease);
        return true;
      }
      case "endSeat": {
        using words = this.#wordsOf(file, PAGE_BYTES);
        endSeat(words);
        return true;
      }
      case "ring":
        ringBell(file);
        return true;
      case "endWriter":
        return this.#endWriter(file, order.next);
    }
  }

  /** False if there is nothing to end: the timeline has ended, or the writer closed the channel. */
  look(file: OwnedFd, order: WordOrder): boolean {
    switch (order.op) {
      case "awaitOwner": {
        using line = this.#wordsOf(file, LINE_BYTES, order.byteOffset);
        return !hasEndedInFile(line);
      }
      case "endWriter": {
        using words = this.#wordsOf(file, HEADERS_AT);
        return !isClosedInFile(words);
      }
      default:
        return true;
    }
  }

  close(): void {
    this.#ownMemory.close();
  }

  /** Also works through the read-only descriptor of a reader if the system can reopen it. */
  #endWriter(control: OwnedFd, next: WithoutWriter): boolean {
    using twin = inspectMemoryFile(control).writable ? undefined : reopenWritable(control);
    using words = this.#wordsOf(twin ?? control, HEADERS_AT);
    return endWriter(words, next);
  }

  #wordsOf(fd: OwnedFd, byteLength: number, byteOffset = 0): UntrustedWords {
    return new UntrustedWords({ fd, byteOffset, byteLength }, this.#ownMemory);
  }
}
