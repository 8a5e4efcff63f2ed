/** A file to which whole lines are added. What could be written only in part is taken back. */
import { ftruncateSync, writeSync } from "node:fs";
import type { OwnedFd } from "../os/owned-fd.js";
import { fromNodeError } from "../os/system-error.js";

export class LineFile {
  readonly path: string;
  readonly fd: OwnedFd;
  #byteLength: number;
  #isTorn = false;

  /** Takes over the open file, in which lines end at `byteLength`. */
  constructor(path: string, fd: OwnedFd, byteLength: number) {
    this.path = path;
    this.fd = fd;
    this.#byteLength = byteLength;
  }

  get byteLength(): number {
    return this.#byteLength;
  }

  /** Whether it ends in part of a line that could not be taken back. */
  get isTorn(): boolean {
    return this.#isTorn;
  }

  /** @throws SystemError; then nothing of the text counts, and `isTorn` tells whether some of it is in the file */
  append(text: string): void {
    // WHY: half a line would spoil the one that is written after it; on a line of its own it is left out alone.
    const bytes = Buffer.from(this.#isTorn ? `\n${text}` : text);
    let written = 0;
    try {
      while (written < bytes.byteLength) {
        const rest = bytes.byteLength - written;
        written += writeSync(this.fd.number, bytes, written, rest, this.#byteLength + written);
      }
    } catch (error) {
      if (written > 0) this.#takeBack(written);
      throw fromNodeError(`write to ${this.path}`, error);
    }
    this.#byteLength += bytes.byteLength;
    this.#isTorn = false;
  }

  /** Cuts off what lies behind the last line. */
  trim(): void {
    try {
      ftruncateSync(this.fd.number, this.#byteLength);
    } catch (error) {
      throw fromNodeError(`shorten ${this.path}`, error);
    }
  }

  close(): void {
    this.fd.close();
  }

  #takeBack(written: number): void {
    try {
      this.trim();
    } catch {
      this.#isTorn = true;
      this.#byteLength += written;
    }
  }
}
