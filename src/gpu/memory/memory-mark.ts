/**
 * Says whether the owner still has memory that ends with it: the word of a memory file that all
 * openers map (wire/legacy-mark.ts).
 */
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { Line } from "../../base/timeline-line.js";
import { Mapping } from "../../os/mapping.js";
import { createMemoryFile, inspectMemoryFile } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { endMark, isMarkEnded, MARK_BYTES, markAt } from "../../wire/legacy-mark.js";

export class MemoryMark {
  /** Of the file, as `inspectMemoryFile` gives it. */
  readonly inode: string;
  readonly #fd: OwnedFd;
  readonly #mapping: Mapping;
  readonly #line: Line;

  private constructor(inode: string, fd: OwnedFd, mapping: Mapping) {
    this.inode = inode;
    this.#fd = fd;
    this.#mapping = mapping;
    // SAFETY: the words are used only by this object, which keeps the mapping.
    this.#line = markAt(mapping.view(0, MARK_BYTES).buffer);
  }

  /** The mark of memory of this process. */
  static create(): MemoryMark {
    return acquireIn((scope) => {
      const fd = scope.own(createMemoryFile("cuda-ipc-mark", MARK_BYTES), (it) => it.close());
      return MemoryMark.#over(fd, "read-write");
    });
  }

  /** A mark that arrived. The descriptor stays the caller's. @throws INVALID_DESCRIPTOR */
  static open(arrived: OwnedFd): MemoryMark {
    const { byteLength, sizeSealed, flaw } = inspectMemoryFile(arrived);
    if (flaw !== undefined || byteLength < MARK_BYTES || !sizeSealed) {
      const found = flaw ?? `it has ${byteLength} bytes${sizeSealed ? "" : ", which can shrink"}`;
      throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot use the mark of memory: ${found}`);
    }
    return acquireIn((scope) => {
      const fd = scope.own(arrived.duplicate(), (it) => it.close());
      return MemoryMark.#over(fd, "read");
    });
  }

  static #over(fd: OwnedFd, access: "read" | "read-write"): MemoryMark {
    const mapping = Mapping.shared(fd, MARK_BYTES, access);
    return new MemoryMark(inspectMemoryFile(fd).inode, fd, mapping);
  }

  /** Whether the memory is gone. */
  get ended(): boolean {
    return isMarkEnded(this.#line);
  }

  /** For the owner, who frees the memory next. */
  end(): void {
    endMark(this.#line);
  }

  /** The caller owns the descriptor. */
  exportFd(): OwnedFd {
    return this.#fd.duplicate();
  }

  /** @throws PEER_GONE */
  refuseEnded(attempt: string): void {
    if (!this.ended) return;
    const found = "its owner is gone, and the memory with it";
    throw new CudaIpcError("PEER_GONE", `Cannot ${attempt}: ${found}`);
  }

  close(): void {
    releaseAll([() => this.#mapping.close(), () => this.#fd.close()]);
  }
}
