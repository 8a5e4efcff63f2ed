/**
 * The operations of a host stream. Each runs in steps short enough for the event loop, and checks
 * its addresses again in each step. Memory that was unmapped too early is then an error of the
 * stream.
 */
import { libc } from "../../ffi/libc.js";
import type { FillPattern } from "../stream-calls.js";
import type { HostAddresses } from "./host-addresses.js";

/** About a millisecond of copying. */
export const STEP_BYTES_MAX = 4 * 1024 * 1024;
const PATTERN_BYTES_MAX = 64 * 1024;

export type StepResult = "done" | "more" | "waiting";

export interface HostOperation {
  /** How much memory it touches. Small operations on an idle stream are done at once. */
  readonly byteLength: number;
  step(): StepResult;
  /** Called instead of further steps if the stream ends or fails first. */
  dropped?(): void;
}

/** As on a GPU, the result is undefined if the ranges overlap. */
export function copy(
  addresses: HostAddresses,
  to: bigint,
  from: bigint,
  byteLength: number,
): HostOperation {
  return inSteps(byteLength, (byteOffset, length) => {
    const target = to + BigInt(byteOffset);
    const source = from + BigInt(byteOffset);
    addresses.check(target, length, "read-write");
    addresses.check(source, length, "read");
    // SAFETY: both ranges were checked just now, and nothing runs in between.
    libc().memmove(target, source, length);
  });
}

export function fill(
  addresses: HostAddresses,
  to: bigint,
  pattern: FillPattern,
  count: number,
): HostOperation {
  const byteLength = count * pattern.elementBytes;
  const block = patternBlock(pattern, Math.min(byteLength, PATTERN_BYTES_MAX));
  return inSteps(byteLength, (byteOffset, length) => {
    const target = to + BigInt(byteOffset);
    addresses.check(target, length, "read-write");
    // SAFETY: as in copy. Steps begin at multiples of the block, the block is a multiple of the
    // element.
    if (block === undefined) {
      libc().memset(target, pattern.value & 0xff, length);
      return;
    }
    for (let done = 0; done < length; done += block.byteLength) {
      libc().memmove(target + BigInt(done), block, Math.min(block.byteLength, length - done));
    }
  });
}

/** Waits until `(int64)(word - value) >= 0`, so that counters may wrap around. */
export function waitWord(addresses: HostAddresses, pointer: bigint, value: bigint): HostOperation {
  return {
    byteLength: 8,
    step() {
      const { words, index } = addresses.word(pointer, "read");
      // SYNC: what the writer did before its store is visible after this load. Pairs with the
      // Atomics.store in `writeWord` here, with cuStreamWriteValue64 in another process, and with
      // every other Atomics.store to the word.
      const word = Atomics.load(words, index);
      return BigInt.asIntN(64, word - value) >= 0n ? "done" : "waiting";
    },
  };
}

export function writeWord(addresses: HostAddresses, pointer: bigint, value: bigint): HostOperation {
  return {
    byteLength: 8,
    step() {
      const { words, index } = addresses.word(pointer, "read-write");
      // SYNC: a reader that sees the value sees everything this stream did before. Pairs with the
      // Atomics.load in `waitWord` here, with cuStreamWaitValue64 in another process, and with
      // every other Atomics.load of the word.
      Atomics.store(words, index, BigInt.asIntN(64, value));
      return "done";
    },
  };
}

function inSteps(
  byteLength: number,
  work: (byteOffset: number, length: number) => void,
): HostOperation {
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

/** Repeats the pattern; undefined if all its bytes are equal, for memset. */
function patternBlock(
  { elementBytes, value }: FillPattern,
  byteLength: number,
): Uint8Array | undefined {
  if (elementBytes === 1 || value === 0) return undefined;
  const count = byteLength / elementBytes;
  const block = elementBytes === 2 ? new Uint16Array(count) : new Uint32Array(count);
  block.fill(value);
  return new Uint8Array(block.buffer);
}
