/**
 * A ring in memory files, as between processes. The writer of a file maps it for writing, all
 * others map it read-only.
 */
import { readSync, writeSync } from "node:fs";
import { Scope } from "../../../src/base/scope.js";
import { type Access, Mapping } from "../../../src/os/mapping.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { OwnedFd } from "../../../src/os/owned-fd.js";
import type { WordsFile } from "../../../src/ring/channel-end.js";
import {
  type ChannelFacts,
  controlByteLength,
  memorySlots,
  PAGE_BYTES,
} from "../../../src/ring/channel-layout.js";
import type { RingMemory } from "./ring-rig.js";

export interface RingAccess {
  readonly control: Access;
  readonly data: Access;
  readonly page: (seat: number) => Access;
}

export const EVERYTHING: RingAccess = {
  control: "read-write",
  data: "read-write",
  page: () => "read-write",
};

/** The number of the first descriptor in a child. */
const FIRST_FD = 3;

export class RingFiles {
  /** The descriptors of control, data and each page. */
  readonly fds: readonly OwnedFd[];
  readonly memory: RingMemory;
  readonly #scope = new Scope();

  /** @param fds undefined for new files */
  constructor(facts: ChannelFacts, access: RingAccess, fds?: readonly OwnedFd[]) {
    const pages = Array.from({ length: facts.readersMax }, () => PAGE_BYTES);
    const sizes = [controlByteLength(facts), memorySlots(facts) * facts.slotStride, ...pages];
    this.fds = fds ?? sizes.map((byteLength) => createMemoryFile("a ring", byteLength));
    for (const fd of this.fds) this.#scope.own(fd, (fd) => fd.close());
    const map = (index: number, access: Access) => {
      const byteLength = sizes[index] as number;
      const mapping = Mapping.shared(this.fds[index] as OwnedFd, byteLength, access);
      this.#scope.own(mapping, (mapping) => mapping.close());
      return mapping.view(0, byteLength).buffer;
    };
    this.memory = {
      control: map(0, access.control),
      data: map(1, access.data),
      pages: pages.map((_, seat) => map(2 + seat, access.page(seat))),
    };
  }

  /** The files that this process inherited when it started. */
  static inherited(facts: ChannelFacts, access: RingAccess): RingFiles {
    const fds = Array.from(
      { length: 2 + facts.readersMax },
      (_, index) => new OwnedFd(FIRST_FD + index),
    );
    return new RingFiles(facts, access, fds);
  }

  get fdNumbers(): number[] {
    return this.fds.map(({ number }) => number);
  }

  /** The control file as the hub uses it, without a mapping. */
  get controlFile(): WordsFile {
    return fileOf(this.fds[0] as OwnedFd);
  }

  pageFile(seat: number): WordsFile {
    return fileOf(this.fds[2 + seat] as OwnedFd);
  }

  [Symbol.dispose](): void {
    this.#scope.close();
  }
}

function fileOf(fd: OwnedFd): WordsFile {
  return {
    read: (byteOffset, bytes) => readSync(fd.number, bytes, 0, bytes.byteLength, byteOffset),
    write: (byteOffset, bytes) => writeSync(fd.number, bytes, 0, bytes.byteLength, byteOffset),
  };
}
