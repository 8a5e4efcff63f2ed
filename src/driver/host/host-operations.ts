/**
 * What can be enqueued on a stream of the host device. Each operation is done in steps that are short enough for the event loop,
 * and checks its addresses again in each: memory that was unmapped too early is then an error of the stream.
 */
import { libc } from "../../ffi/libc.js";
import type { FillPattern } from "../gpu-driver.js";
import type { HostMemories } from "./host-memory.js";

/** About a millisecond of copying. */
export const STEP_BYTES_MAX = 4 * 1024 * 1024;
const PATTERN_BYTES_MAX = 64 * 1024;

export type StepResult = "done" | "more" | "waiting";

export interface HostOperation {
  /** How much memory is touched in all; small operations on an idle stream are done at once. */
  readonly byteLength: number;
  step(): StepResult;
  /** Instead of further steps, where the stream ends or fails before this is done. */
  dropped?(): void;
}

/** As on a GPU, the result where the two ranges overlap is undefined. */
export function copy(memories: HostMemories, to: bigint, from: bigint, byteLength: number): HostOperation {
  return inSteps(byteLength, (byteOffset, length) => {
    const target = to + BigInt(byteOffset);
    const source = from + BigInt(byteOffset);
    memories.check(target, length, "read-write");
    memories.check(source, length, "read");
    // SAFETY: both ranges were found in memory of this driver just now, and nothing runs in between.
    libc().memmove(target, source, length);
  });
}

export function fill(memories: HostMemories, to: bigint, pattern: FillPattern, count: number): HostOperation {
  const byteLength = count * pattern.elementBytes;
  const block = patternBlock(pattern, Math.min(byteLength, PATTERN_BYTES_MAX));
  return inSteps(byteLength, (byteOffset, length) => {
    const target = to + BigInt(byteOffset);
    memories.check(target, length, "read-write");
    // SAFETY: as in copy. The steps begin at multiples of the block, and the block is a multiple of the element.
    if (block === undefined) {
      libc().memset(target, pattern.value & 0xff, length);
      return;
    }
    for (let done = 0; done < length; done += block.byteLength) {
      libc().memmove(target + BigInt(done), block, Math.min(block.byteLength, length - done));
    }
  });
}

/** `(int64)(word - value) >= 0`, so that counters may pass the end of their range. */
export function waitWord(memories: HostMemories, pointer: bigint, value: bigint): HostOperation {
  return {
    byteLength: 8,
    step() {
      const { words, index } = memories.word(pointer, "read");
      // SYNC: what the writer did before its store is visible after this load. Pairs with the Atomics.store in `writeWord` here,
      // with cuStreamWriteValue64 in another process, and with every other Atomics.store to the word.
      const word = Atomics.load(words, index);
      return BigInt.asIntN(64, word - value) >= 0n ? "done" : "waiting";
    },
  };
}

export function writeWord(memories: HostMemories, pointer: bigint, value: bigint): HostOperation {
  return {
    byteLength: 8,
    step() {
      const { words, index } = memories.word(pointer, "read-write");
      // SYNC: everything this stream did before is visible to whoever sees the value. Pairs with the Atomics.load in `waitWord`
      // here, with cuStreamWaitValue64 in another process, and with every other Atomics.load of the word.
      Atomics.store(words, index, BigInt.asIntN(64, value));
      return "done";
    },
  };
}

function inSteps(byteLength: number, work: (byteOffset: number, length: number) => void): HostOperation {
  let done = 0;
  return {
    byteLength,
    step() {
      const length = Math.min(byteLength - done, STEP_BYTES_MAX);
      work(done, length);
      done += length;
      return done === byteLength ? "done" : "more";
    },
  };
}

/** The pattern repeated, or undefined where all its bytes are equal and memset will do. */
function patternBlock({ elementBytes, value }: FillPattern, byteLength: number): Uint8Array | undefined {
  if (elementBytes === 1 || value === 0) return undefined;
  const count = byteLength / elementBytes;
  const block = elementBytes === 2 ? new Uint16Array(count) : new Uint32Array(count);
  block.fill(value);
  return new Uint8Array(block.buffer);
}
