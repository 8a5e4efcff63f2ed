/**
 * Result areas of reductions: device memory, each with staging memory that it is copied to. They
 * are made several at a time, reused, and freed only with the driver, because freeing staging
 * memory may block while a stream waits.
 */
import { roundUp } from "../../base/bytes.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import type { DevicePointer, HostPointer, MemoryCalls, StagingMemory } from "../memory-calls.js";

export const RESULT_BYTES = 64 * 1024;

export interface ResultArea {
  readonly ordinal: number;
  readonly pointer: DevicePointer;
  readonly staging: HostPointer;
  /** The staging memory itself. */
  readonly bytes: Uint8Array;
}

/** The driver calls that areas need. */
export type ResultMemory = Pick<
  MemoryCalls,
  "createMemory" | "releaseMemory" | "mapMemory" | "unmapMemory" | "allocateStaging" | "freeStaging"
> & { granularityBytes(ordinal: number): number };

interface Block {
  readonly ordinal: number;
  readonly pointer: DevicePointer;
  readonly staging: StagingMemory;
}

export class CudaResultAreas {
  readonly #memory: ResultMemory;
  readonly #areasAtATime: number;
  readonly #blocks: Block[] = [];
  readonly #free = new Map<number, ResultArea[]>();

  constructor(memory: ResultMemory, areasAtATime: number) {
    this.#memory = memory;
    this.#areasAtATime = areasAtATime;
  }

  /** Takes a free area. It is the caller's until `giveBack`. */
  take(ordinal: number): ResultArea {
    this.reserve(ordinal);
    return this.#freeOn(ordinal).pop() as ResultArea;
  }

  /** Gives an area back. No stream may still write to it. */
  giveBack(area: ResultArea): void {
    this.#freeOn(area.ordinal).push(area);
  }

  /** Makes sure that there is a free area. */
  reserve(ordinal: number): void {
    const free = this.#freeOn(ordinal);
    if (free.length > 0) return;
    const block = this.#create(ordinal);
    this.#blocks.push(block);
    for (let offset = 0; offset < this.#areasAtATime * RESULT_BYTES; offset += RESULT_BYTES) {
      free.push({
        ordinal,
        pointer: block.pointer + BigInt(offset),
        staging: block.staging.address + BigInt(offset),
        bytes: block.staging.bytes.subarray(offset, offset + RESULT_BYTES),
      });
    }
  }

  /** Frees everything, also areas in use: their streams are idle or lost. */
  close(): void {
    this.#free.clear();
    const memory = this.#memory;
    releaseAll(
      this.#blocks
        .splice(0)
        .flatMap(({ ordinal, pointer, staging }) => [
          () => memory.freeStaging(staging),
          () => memory.unmapMemory(ordinal, pointer),
        ]),
    );
  }

  #create(ordinal: number): Block {
    const memory = this.#memory;
    const byteLength = this.#areasAtATime * RESULT_BYTES;
    return acquireIn((scope) => {
      const physical = memory.createMemory(
        ordinal,
        roundUp(byteLength, memory.granularityBytes(ordinal)),
      );
      let pointer: DevicePointer;
      try {
        pointer = scope.own(memory.mapMemory(physical, "read-write"), (it) =>
          memory.unmapMemory(ordinal, it),
        );
      } finally {
        // The mapping keeps the memory.
        memory.releaseMemory(physical);
      }
      return { ordinal, pointer, staging: memory.allocateStaging(ordinal, byteLength) };
    });
  }

  #freeOn(ordinal: number): ResultArea[] {
    let free = this.#free.get(ordinal);
    if (free === undefined) {
      free = [];
      this.#free.set(ordinal, free);
    }
    return free;
  }
}
