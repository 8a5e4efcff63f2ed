/** A file to which complete lines are added. A line that was written in part is taken back. */
import { ftruncateSync, unlinkSync, writeSync } from "node:fs";
import type { OwnedFd } from "../../os/owned-fd.js";
import { fromNodeError } from "../../os/system-error.js";

export class LineFile {
  readonly path: string;
  readonly fd: OwnedFd;
  #byteLength: number;
  #isTorn = false;

  /** Takes over the open file, whose lines end at `byteLength`. */
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

  /** @throws SystemError; then no line counts, and `isTorn` says whether a part is in the file */
  append(text: string): void {
    // Half a line would spoil the next one. With a newline behind it, only itself is lost.
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

  /** Cuts off everything behind the last line. */
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

/** Removes a file. A file that is gone already is no error. */
export function removeFile(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (!(error instanceof Error && "code" in error && error.code === "ENOENT"))
      throw fromNodeError(`remove ${path}`, error);
  }
}
