/** This process's memory as a file. */
import type { Address } from "../ffi/koffi.js";
import { writeFilePart } from "./file-calls.js";
import { openFile } from "./open-file.js";
import type { OwnedFd } from "./owned-fd.js";

export class OwnMemory {
  readonly #file: OwnedFd;

  constructor() {
    this.#file = openFile("/proc/self/mem", "read-write", "open this process's own memory");
  }

  /**
   * Copies to mapped memory, an aligned word at once.
   * WHY not a store: where no memory is left for a page of a file, a store ends this process (SIGBUS), and this throws.
   */
  write(address: Address, bytes: Uint8Array): void {
    // Addresses of Linux have at most 52 bits.
    writeFilePart(this.#file, bytes, Number(address));
  }

  close(): void {
    this.#file.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}
