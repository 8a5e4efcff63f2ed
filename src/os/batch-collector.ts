/** Puts the packets of fd-batches.ts together to items again, and owns all descriptors until it hands them over. Trusts nothing. */
import { CudaIpcError } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import { type BatchItem, ITEM_HEADER_BYTES, itemHeader, kindOf, MORE_HEADER_BYTES } from "./batch-layout.js";
import type { OwnedFd } from "./owned-fd.js";
import type { Packet } from "./seqpacket.js";

export interface BatchLimits {
  /** Descriptors of all items. */
  readonly fdsMax: number;
  /** Bytes of all items, with 9 more for each. */
  readonly bytesMax: number;
}

interface Unfinished {
  readonly byteLength: number;
  readonly fdCount: number;
  readonly chunks: Uint8Array[];
  readonly fds: OwnedFd[];
  bytesMissing: number;
}

export class BatchCollector {
  readonly #limits: BatchLimits;
  readonly #items: BatchItem[] = [];
  #unfinished: Unfinished | undefined;
  #fdCount = 0;
  #byteCount = 0;

  constructor(limits: BatchLimits) {
    this.#limits = limits;
  }

  /**
   * Takes over the packet's descriptors, also where it throws.
   * @returns what is to be answered
   * @throws INVALID_MESSAGE, LIMIT_EXCEEDED, or the packet's damage
   */
  take(packet: Packet): "ask" | "end" | undefined {
    try {
      return this.#take(packet);
    } catch (error) {
      releaseAll(packet.fds.map((fd) => () => fd.close()));
      throw error;
    }
  }

  /** All items; their descriptors are the caller's from here on. */
  handOver(): BatchItem[] {
    return this.#items.splice(0);
  }

  close(): void {
    const fds = [...this.#items.splice(0).flatMap((item) => item.fds), ...(this.#unfinished?.fds ?? [])];
    this.#unfinished = undefined;
    releaseAll(fds.map((fd) => () => fd.close()));
  }

  #take({ bytes, fds, damage }: Packet): "ask" | "end" | undefined {
    if (damage !== undefined) throw damage;
    const kind = kindOf(bytes);
    if (kind === "item") {
      if (this.#unfinished !== undefined) throw refused("an item began before the last was complete");
      this.#unfinished = this.#begin(bytes);
      this.#add(this.#unfinished, bytes.subarray(ITEM_HEADER_BYTES), fds);
      return undefined;
    }
    if (kind === "more") {
      if (this.#unfinished === undefined) throw refused("more came than was announced");
      // WHY: packets that bring nothing could come for ever.
      if (bytes.byteLength === MORE_HEADER_BYTES && fds.length === 0) throw refused("a packet was empty");
      this.#add(this.#unfinished, bytes.subarray(MORE_HEADER_BYTES), fds);
      return undefined;
    }
    if (fds.length > 0) throw refused("descriptors came where none may");
    if (kind === "end" && this.#unfinished !== undefined) throw refused("the end came before an item was complete");
    if (kind === "ask" || kind === "end") return kind;
    throw refused("a packet is of no kind that is known");
  }

  #begin(packet: Uint8Array): Unfinished {
    const { byteLength, fdCount } = itemHeader(packet);
    this.#byteCount += byteLength + ITEM_HEADER_BYTES;
    this.#fdCount += fdCount;
    if (this.#fdCount > this.#limits.fdsMax || this.#byteCount > this.#limits.bytesMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot receive all descriptors: ${this.#fdCount} with ${this.#byteCount} bytes are announced, ` +
          `wanted ${this.#limits.fdsMax} with ${this.#limits.bytesMax} bytes at most`,
      );
    }
    return { byteLength, fdCount, chunks: [], fds: [], bytesMissing: byteLength };
  }

  #add(item: Unfinished, bytes: Uint8Array, fds: readonly OwnedFd[]): void {
    if (bytes.byteLength > item.bytesMissing || item.fds.length + fds.length > item.fdCount) {
      throw refused(`more came than the ${item.byteLength} bytes and ${item.fdCount} descriptors that were announced`);
    }
    item.chunks.push(bytes);
    item.fds.push(...fds);
    item.bytesMissing -= bytes.byteLength;
    if (item.bytesMissing > 0 || item.fds.length < item.fdCount) return;
    this.#unfinished = undefined;
    this.#items.push({ bytes: joined(item.chunks), fds: item.fds });
  }
}

function joined(chunks: readonly Uint8Array[]): Uint8Array {
  const [first] = chunks;
  return chunks.length === 1 && first !== undefined ? first : new Uint8Array(Buffer.concat(chunks));
}

function refused(found: string): CudaIpcError {
  return new CudaIpcError("INVALID_MESSAGE", `Cannot receive all descriptors: ${found}`);
}
