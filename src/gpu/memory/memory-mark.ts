/**
 * Says whether the owner still has memory that ends with it: the word of a memory file that all
 * openers map (wire/legacy-mark.ts).
 */
import { CudaIpcError } from "../../base/errors.js";
import type { Line } from "../../base/timeline-line.js";
import { Mapping } from "../../os/mapping.js";
import { inspectMemoryFile } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { isMarkEnded, MARK_BYTES, markAt } from "../../wire/legacy-mark.js";

export class MemoryMark {
  readonly #mapping: Mapping;
  readonly #line: Line;

  private constructor(mapping: Mapping) {
    this.#mapping = mapping;
    // SAFETY: the words are used only by this object, which keeps the mapping.
    this.#line = markAt(mapping.view(0, MARK_BYTES).buffer);
  }

  /** A mark that arrived. The descriptor stays the caller's. @throws INVALID_DESCRIPTOR */
  static open(arrived: OwnedFd): MemoryMark {
    const { byteLength, sizeSealed, flaw } = inspectMemoryFile(arrived);
    if (flaw !== undefined || byteLength < MARK_BYTES || !sizeSealed) {
      const found = flaw ?? `it has ${byteLength} bytes${sizeSealed ? "" : ", which can shrink"}`;
      throw new CudaIpcError("INVALID_DESCRIPTOR", `Cannot use the mark of memory: ${found}`);
    }
    return new MemoryMark(Mapping.shared(arrived, MARK_BYTES, "read"));
  }

  /** Whether the memory is gone. */
  get ended(): boolean {
    return isMarkEnded(this.#line);
  }

  /** @throws PEER_GONE */
  refuseEnded(attempt: string): void {
    if (!this.ended) return;
    const found = "its owner is gone, and the memory with it";
    throw new CudaIpcError("PEER_GONE", `Cannot ${attempt}: ${found}`);
  }

  close(): void {
    this.#mapping.close();
  }
}
