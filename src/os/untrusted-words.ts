/** Words in a memory file that untrusted processes may write to as well. */
import type { Address } from "../ffi/koffi.js";
import { readFilePart, writeFilePart } from "./file-calls.js";
import { Mapping, PAGE_BYTES_MAX } from "./mapping.js";
import { openFile } from "./open-file.js";
import type { OwnedFd } from "./owned-fd.js";

/** This process's memory as a file. */
export class OwnMemory {
  readonly #file: OwnedFd;

  constructor() {
    this.#file = openFile("/proc/self/mem", "read-write", "open this process's own memory");
  }

  /**
   * Copies to mapped memory. The kernel copies an aligned word at once.
   * WHY not a store: if no memory is left for a page of the file, a store ends this process
   * (SIGBUS) and this call throws.
   */
  write(address: Address, bytes: Uint8Array): void {
    // Linux addresses have at most 52 bits.
    writeFilePart(this.#file, bytes, Number(address));
  }

  close(): void {
    this.#file.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** The file must be large enough and sealed against resizing. The caller keeps the descriptor. */
export interface WordsRange {
  readonly fd: OwnedFd;
  readonly byteOffset: number;
  readonly byteLength: number;
}

/** Reads and writes never wait for other writers, and nothing they do can end this process. */
export class UntrustedWords {
  readonly #range: WordsRange;
  readonly #ownMemory: OwnMemory;
  readonly #mappedFrom: number;
  #mapping: Mapping | undefined;

  constructor(range: WordsRange, ownMemory: OwnMemory) {
    this.#range = range;
    this.#ownMemory = ownMemory;
    this.#mappedFrom = range.byteOffset - (range.byteOffset % PAGE_BYTES_MAX);
  }

  /** `byteOffset` counts from the first word. */
  read(byteOffset: number, into: Uint8Array): void {
    const { fd, byteOffset: start } = this.#range;
    readFilePart(fd, into, start + byteOffset);
  }

  /**
   * An aligned word is copied at once.
   * WHY not a write to the file: it waits for every other write to the file. A write whose bytes
   * come from a FUSE page can last for as long as its author likes.
   */
  write(byteOffset: number, bytes: Uint8Array): void {
    const { fd, byteOffset: start, byteLength } = this.#range;
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
