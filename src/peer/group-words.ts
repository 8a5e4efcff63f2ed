/**
 * The shared memory of a group as one member sees it. It writes its own words, and reads and checks
 * those of the others. group-layout.ts has the layout, and group-barrier.ts decides about barriers.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { acquireIn } from "../base/scope.js";
import { Mapping } from "../os/mapping.js";
import { createMemoryFile, inspectMemoryFile } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import * as layout from "./group-layout.js";

export interface End {
  /** The first barrier that the rank misses. */
  readonly barrier: number;
  readonly reason: EndReason;
  /** The rank that left, gave up, or died. */
  readonly rank: number;
}

type EndReason = keyof typeof layout.endReasons;

const REASONS = Object.keys(layout.endReasons) as EndReason[];

export class GroupWords {
  readonly size: number;
  readonly rank: number;
  readonly #mapping: Mapping;
  readonly #view: BigInt64Array;
  #open = true;

  /** Takes over the mapping. */
  private constructor(mapping: Mapping, rank: number, size: number) {
    this.#mapping = mapping;
    this.rank = rank;
    this.size = size;
    const bytes = mapping.view(0, layout.wordsByteLength(size));
    this.#view = new BigInt64Array(bytes.buffer, bytes.byteOffset, bytes.byteLength / 8);
  }

  /** Creates the memory of a group as its rank 0. The caller owns both. */
  static create(size: number): { readonly memory: OwnedFd; readonly words: GroupWords } {
    return acquireIn((scope) => {
      const memory = scope.own(
        createMemoryFile("cuda-ipc-group", layout.groupByteLength(size)),
        (fd) => fd.close(),
      );
      const words = GroupWords.#map(memory, 0, size);
      words.#words[layout.headerWords.magic] = layout.GROUP_MAGIC;
      words.#words[layout.headerWords.version] = layout.GROUP_VERSION;
      words.#words[layout.headerWords.size] = BigInt(size);
      return { memory, words };
    });
  }

  /**
   * Maps the memory that rank 0 sent. The caller keeps the descriptor.
   * @throws INVALID_DESCRIPTOR for any other memory
   */
  static open(memory: OwnedFd, rank: number, size: number): GroupWords {
    const refuse = (found: string) =>
      new CudaIpcError("INVALID_DESCRIPTOR", `Cannot use the memory of a group: ${found}`);
    const { byteLength, sizeSealed, flaw } = inspectMemoryFile(memory);
    if (flaw !== undefined) throw refuse(flaw);
    const wanted = layout.groupByteLength(size);
    if (!sizeSealed || byteLength !== wanted)
      throw refuse(`${byteLength} bytes, wanted ${wanted} of sealed size`);
    return acquireIn((scope) => {
      const words = scope.own(GroupWords.#map(memory, rank, size), (words) => words.close());
      const { magic, version, size: members } = layout.headerWords;
      const found = [magic, version, members].map((index) => words.#words[index]);
      if (found[0] !== layout.GROUP_MAGIC) throw refuse("its magic number is wrong");
      if (found[1] !== layout.GROUP_VERSION)
        throw refuse(`version ${found[1]}, wanted ${layout.GROUP_VERSION}`);
      if (found[2] !== BigInt(size)) throw refuse(`it is for ${found[2]} members, wanted ${size}`);
      return words;
    });
  }

  static #map(memory: OwnedFd, rank: number, size: number): GroupWords {
    return acquireIn((scope) => {
      const mapping = Mapping.shared(memory, layout.groupByteLength(size), "read-write");
      return new GroupWords(
        scope.own(mapping, (mapping) => mapping.close()),
        rank,
        size,
      );
    });
  }

  /** SYNC: releases earlier writes, such as the slot, to members that read `arrived`. */
  arrive(barrier: number): void {
    Atomics.store(this.#words, layout.wordIndex(this.rank, "arrived"), BigInt(barrier));
  }

  /**
   * SYNC: acquires what the rank wrote before it arrived. A rank that breaks the rules can store
   * any number.
   */
  arrived(rank: number): bigint {
    return Atomics.load(this.#words, layout.wordIndex(rank, "arrived"));
  }

  /** This rank misses this barrier and all later ones. Only the first call counts. */
  end({ barrier, reason, rank }: End): void {
    const index = layout.wordIndex(this.rank, "ended");
    if (Atomics.load(this.#words, index) !== 0n) return;
    const why = BigInt(rank) * layout.END_REASONS + layout.endReasons[reason];
    Atomics.store(
      this.#words,
      index,
      BigInt(barrier) * layout.END_RANKS * layout.END_REASONS + why,
    );
  }

  /**
   * Returns from which barrier on the rank is missing, and why. Undefined if it takes part;
   * "nonsense" for a word that no member writes.
   */
  ended(rank: number): End | "nonsense" | undefined {
    const word = Atomics.load(this.#words, layout.wordIndex(rank, "ended"));
    if (word === 0n) return undefined;
    const reason = REASONS.find(
      (reason) => layout.endReasons[reason] === word % layout.END_REASONS,
    );
    const concerned = Number((word / layout.END_REASONS) % layout.END_RANKS);
    const barrier = word / layout.END_REASONS / layout.END_RANKS;
    if (barrier < 1n || reason === undefined || concerned >= this.size) return "nonsense";
    if ((reason === "sawDeath") === (concerned === rank)) return "nonsense";
    return { barrier: Number(barrier), reason, rank: concerned };
  }

  /**
   * Stores this rank's value for the barrier, at most `limits.gatherBytesMax` bytes. Call it before
   * `arrive`.
   */
  give(barrier: number, bytes: Uint8Array): void {
    this.#slot(this.rank, barrier, bytes.byteLength).set(bytes);
    const word = BigInt(barrier) * layout.GATHERED_LENGTHS + BigInt(bytes.byteLength);
    Atomics.store(this.#words, layout.gatheredIndex(this.rank, barrier), word);
  }

  /** A copy of the rank's value at this complete barrier. Undefined if it gave none. */
  given(rank: number, barrier: number): Uint8Array | undefined {
    const word = Atomics.load(this.#words, layout.gatheredIndex(rank, barrier));
    const byteLength = word - BigInt(barrier) * layout.GATHERED_LENGTHS;
    if (byteLength < 0n || byteLength > BigInt(limits.gatherBytesMax)) return undefined;
    return this.#slot(rank, barrier, Number(byteLength)).slice();
  }

  /** Closes it before the first barrier, at which other members may wait already. */
  leave(): void {
    this.end({ barrier: 1, reason: "left", rank: this.rank });
    this.close();
  }

  close(): void {
    this.#open = false;
    this.#mapping.close();
  }

  /** SAFETY: the view outlives the mapping, so every access goes through this getter. */
  get #words(): BigInt64Array {
    if (!this.#open)
      throw new CudaIpcError("CLOSED", "Cannot use the memory of a group: it was closed");
    return this.#view;
  }

  #slot(rank: number, barrier: number, byteLength: number): Uint8Array {
    return this.#mapping.view(layout.slotOffset(this.size, rank, barrier), byteLength);
  }
}
