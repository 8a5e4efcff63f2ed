/**
 * The words of one timeline in shared memory, and what they say. Every function here is a load or a store of the CPU; GPUs wait for
 * and write the first word alone.
 *
 *   byte 0        8         16                          64
 *   | value      | final    | unused, zero              |    one cache line a timeline
 *
 * `value` only grows, from 0 to VALUE_MAX. Whoever ends a timeline (its owner, or somebody on behalf of an owner that died) stores
 * the value reached in `final` and then POISON in `value`: every wait for any value is over then, on GPUs too, and `final` tells
 * those that were reached from those that never will be.
 */
import { CudaIpcError } from "./errors.js";

export const LINE_BYTES = 64;
const WORDS_PER_LINE = LINE_BYTES / 8;
const VALUE = 0;
const FINAL = 1;

/** The largest value that satisfies every wait, since GPUs compare cyclically: -1 would satisfy none. */
const POISON = 2n ** 63n - 1n;
const VALUE_MAX = POISON - 1n;

/** Whether a timeline can lie at this byte of memory of so many bytes. */
export function isPlace(byteOffset: number, byteLength: number): boolean {
  return (
    Number.isSafeInteger(byteOffset) &&
    byteOffset >= 0 &&
    byteOffset % LINE_BYTES === 0 &&
    byteOffset + LINE_BYTES <= byteLength
  );
}

export interface Line {
  readonly words: BigInt64Array;
  /** Of the first word. */
  readonly index: number;
}

export function lineAt(words: BigInt64Array, byteOffset: number): Line {
  return { words, index: (byteOffset / LINE_BYTES) * WORDS_PER_LINE };
}

export interface LineState {
  /** What was reached. */
  readonly value: bigint;
  /** Whether nothing more will be. */
  readonly ended: boolean;
}

export function stateOf({ words, index }: Line): LineState {
  // SYNC: what the owner did before its store is visible after this load. Pairs with the stores in `storeValue` and `poison`, and
  // with the driver's `writeWord`.
  const value = Atomics.load(words, index + VALUE);
  if (value !== POISON) return { value, ended: false };
  return { value: Atomics.load(words, index + FINAL), ended: true };
}

/** As `stateOf`, for a loop: undefined where it has ended, and `stateOf` tells how. */
export function liveValue({ words, index }: Line): bigint | undefined {
  // SYNC: as in `stateOf`.
  const value = Atomics.load(words, index + VALUE);
  return value === POISON ? undefined : value;
}

export function storeValue({ words, index }: Line, value: bigint): void {
  // SYNC: everything done before is visible to whoever sees the value. Pairs with the load in `stateOf` and the driver's `waitWord`.
  Atomics.store(words, index + VALUE, value);
}

/** The caller knows that nothing signals this timeline any more: no stream of its owner, or its owner is dead. */
export function poison(line: Line): void {
  const { value, ended } = stateOf(line);
  if (ended) return;
  // SYNC: `final` first, so that whoever sees POISON finds it. Pairs with the loads in `stateOf`.
  Atomics.store(line.words, line.index + FINAL, value);
  Atomics.store(line.words, line.index + VALUE, POISON);
}

/** As `poison`, for words that are not mapped for JavaScript. */
export function poisonFile(line: LineBytes): void {
  const value = new BigInt64Array(1);
  line.read(VALUE * 8, new Uint8Array(value.buffer));
  if (value[0] === POISON) return;
  line.write(FINAL * 8, new Uint8Array(value.buffer));
  line.write(VALUE * 8, new Uint8Array(BigInt64Array.of(POISON).buffer));
}

/** The bytes of one line, of which an aligned word is copied at once. */
export interface LineBytes {
  read(byteOffset: number, into: Uint8Array): void;
  write(byteOffset: number, bytes: Uint8Array): void;
}

/** A value to signal or to wait for. WHY a number stays one: drivers take it in less time than its bigint. */
export function checkValue(what: string, value: number | bigint): number | bigint {
  if (typeof value === "number" && Number.isSafeInteger(value)) {
    // Every integer that a number is exact for lies below VALUE_MAX.
    if (value >= 0) return value;
  } else if (typeof value !== "bigint") {
    throw new TypeError(`${what} must be an integer, not ${describe(value)}`);
  } else if (value >= 0n && value <= VALUE_MAX) {
    return value;
  }
  throw new RangeError(`${what} must be from 0 to 2^63 - 2, not ${value}`);
}

/** WHY not String alone: it throws for some objects, in words of its own. */
function describe(value: unknown): string {
  if (typeof value === "function") return "a function";
  return typeof value === "object" && value !== null ? "an object" : String(value);
}

/** @throws PEER_GONE where the timeline ended before it got there */
export function checkReached(label: string, { value, ended }: LineState, wanted: number | bigint): boolean {
  if (value >= wanted) return true;
  if (!ended) return false;
  throw new CudaIpcError(
    "PEER_GONE",
    `Timeline "${label}" ended at ${value} and will never reach ${wanted}: its owner is gone`,
  );
}
