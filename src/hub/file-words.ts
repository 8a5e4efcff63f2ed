/**
 * The hub's writes to the memory files of timelines and channels. Any client may have made these
 * files. Their sizes were checked and are sealed, so the writes stay within them.
 */

import { LINE_BYTES, poisonFile } from "../base/timeline-line.js";
import { inspectMemoryFile, reopenWritable } from "../os/memory-file.js";
import { OwnMemory } from "../os/own-memory.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { SharedWords } from "../os/shared-words.js";
import { beginPlace, endPlace, endWriter, type WithoutWriter } from "../ring/channel-end.js";
import { HEADERS_AT, PAGE_BYTES } from "../ring/channel-layout.js";

export class FileWords {
  // WHY opened at the start: at the limit of open files the hub must still end what a dead client owned.
  readonly #ownMemory = new OwnMemory();

  endTimeline(memory: OwnedFd, byteOffset: number): void {
    using line = this.#wordsOf(memory, LINE_BYTES, byteOffset);
    poisonFile(line);
  }

  beginPlace(page: OwnedFd, lease: number): void {
    using words = this.#wordsOf(page, PAGE_BYTES);
    beginPlace(words, lease);
  }

  endPlace(page: OwnedFd): void {
    using words = this.#wordsOf(page, PAGE_BYTES);
    endPlace(words);
  }

  /** As `endWriter`, also by a descriptor that a reader got for reading alone, where the system allows that. */
  endWriter(control: OwnedFd, next: WithoutWriter): boolean {
    using twin = inspectMemoryFile(control).writable ? undefined : reopenWritable(control);
    using words = this.#wordsOf(twin ?? control, HEADERS_AT);
    return endWriter(words, next);
  }

  close(): void {
    this.#ownMemory.close();
  }

  #wordsOf(fd: OwnedFd, byteLength: number, byteOffset = 0): SharedWords {
    return new SharedWords({ fd, byteOffset, byteLength }, this.#ownMemory);
  }
}
