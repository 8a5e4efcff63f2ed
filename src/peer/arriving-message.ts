/** Puts together a message that arrives in parts, with at most one descriptor. */
import { closeFds, closeForeign } from "../os/foreign-fd.js";
import type { OwnedFd } from "../os/owned-fd.js";

/** A message with its descriptor. */
export interface Arrived {
  readonly bytes: Uint8Array;
  /** The first descriptor, which the receiver owns. All others are closed. */
  readonly fd: OwnedFd | undefined;
  readonly fdCount: number;
}

export class ArrivingMessage {
  readonly #bytes: Uint8Array[] = [];
  #fd: OwnedFd | undefined;
  #fdCount = 0;
  byteLength = 0;

  get parts(): number {
    return this.#bytes.length;
  }

  /** Keeps the first descriptor alone, so that a hostile sender cannot fill the table of files. */
  add({ bytes, fds }: { readonly bytes: Uint8Array; readonly fds: readonly OwnedFd[] }): void {
    this.#bytes.push(bytes);
    this.byteLength += bytes.byteLength;
    this.#fdCount += fds.length;
    const others = this.#fd === undefined ? fds.slice(1) : fds;
    this.#fd ??= fds[0];
    closeFds(others);
  }

  words(byteLength: number | undefined): string {
    if (this.#bytes.length === 0) return "nothing";
    return `${this.byteLength} of ${byteLength} bytes`;
  }

  whole(): Arrived {
    const bytes = new Uint8Array(Buffer.concat(this.#bytes));
    return { bytes, fd: this.#fd, fdCount: this.#fdCount };
  }

  drop(): void {
    if (this.#fd !== undefined) closeForeign(this.#fd);
    this.#fd = undefined;
  }
}
