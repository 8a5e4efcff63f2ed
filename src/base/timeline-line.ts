/**
 * The words of one timeline in shared memory. The functions here are loads and stores of the CPU.
 * GPUs wait for and write only the first word.
 *
 *   byte 0        8         16          24               64
 *   | value      | final    | awaited   | unused, zero   |    one cache line a timeline
 *
 * `value` only grows, from 0 to VALUE_MAX. To end a timeline, its owner (or the hub for a dead one)
 * stores the value reached in `final` and then POISON in `value`. Every wait is then over, on GPUs,
 * too. `final` tells which waits were reached and which never will be.
 *
 * `awaited` is 1 while a timeline that waits for its next owner has none. The hub sets it, and the
 * next owner clears it.
 */
import { CudaIpcError } from "./errors.js";
import { shownValue } from "./shown-value.js";

export const LINE_BYTES = 64;
const WORDS_PER_LINE = LINE_BYTES / 8;
const VALUE = 0;
const FINAL = 1;
const AWAITED = 2;

/**
 * The largest value. It satisfies every wait. -1 would satisfy none, because GPUs compare
 * cyclically.
 */
const POISON = 2n ** 63n - 1n;
const VALUE_MAX = POISON - 1n;

/** True if a timeline fits at this byte of memory of `byteLength` bytes. */
export function isLineOffset(byteOffset: number, byteLength: number): boolean {
  return (
    Number.isSafeInteger(byteOffset) &&
    byteOffset >= 0 &&
    byteOffset % LINE_BYTES === 0 &&
    byteOffset + LINE_BYTES <= byteLength
  );
}

export interface Line {
  readonly words: BigInt64Array;
  /** The index of the first word. */
  readonly index: number;
}

export function lineAt(words: BigInt64Array, byteOffset: number): Line {
  return { words, index: (byteOffset / LINE_BYTES) * WORDS_PER_LINE };
}

export interface LineState {
  /** The value reached. */
  readonly value: bigint;
  /** Nothing more will be reached. */
  readonly ended: boolean;
}

export function stateOf({ words, index }: Line): LineState {
  // SYNC: what the owner did before its store is visible after this load. Pairs with the stores in
  // `storeValue` and `poison`, and with the driver's `writeWord`.
  const value = Atomics.load(words, index + VALUE);
  if (value !== POISON) return { value, ended: false };
  return { value: Atomics.load(words, index + FINAL), ended: true };
}

/** As `stateOf`, but faster, for loops. Returns undefined if the timeline has ended. */
export function liveValue({ words, index }: Line): bigint | undefined {
  // SYNC: as in `stateOf`.
  const value = Atomics.load(words, index + VALUE);
  return value === POISON ? undefined : value;
}

/** True while the timeline has no owner and waits for the next one. */
export function isOwnerAwaited({ words, index }: Line): boolean {
  // SYNC: pairs with the stores in `takeOver` and `awaitOwnerInFile`.
  return Atomics.load(words, index + AWAITED) !== 0n;
}

/** The caller is the next owner of the timeline from here on. */
export function takeOver({ words, index }: Line): void {
  // SYNC: pairs with the load in `isOwnerAwaited`.
  Atomics.store(words, index + AWAITED, 0n);
}

export function storeValue({ words, index }: Line, value: bigint): void {
  // SYNC: what was done before is visible to a process that sees the value. Pairs with the load in
  // `stateOf` and with the driver's `waitWord`.
  Atomics.store(words, index + VALUE, value);
}

/**
 * Ends a timeline. Nothing may signal it any more: no stream of its owner, or its owner is dead.
 */
export function poison(line: Line): void {
  const { value, ended } = stateOf(line);
  if (ended) return;
  // SYNC: `final` first, so a process that sees POISON finds it. Pairs with the loads in `stateOf`.
  Atomics.store(line.words, line.index + FINAL, value);
  Atomics.store(line.words, line.index + VALUE, POISON);
}

/** As `poison`, for words that JavaScript has not mapped. */
export function poisonFile(line: LineBytes): void {
  const value = valueInFile(line);
  if (value[0] === POISON) return;
  line.write(FINAL * 8, new Uint8Array(value.buffer));
  line.write(VALUE * 8, new Uint8Array(BigInt64Array.of(POISON).buffer));
}

/**
 * Marks that the owner is gone and the next one is awaited, in words that JavaScript has not
 * mapped.
 * @returns false if the timeline has ended
 */
export function awaitOwnerInFile(line: LineBytes): boolean {
  if (hasEndedInFile(line)) return false;
  line.write(AWAITED * 8, new Uint8Array(BigInt64Array.of(1n).buffer));
  return true;
}

/** Whether the timeline has ended, in words that JavaScript has not mapped. */
export function hasEndedInFile(line: Pick<LineBytes, "read">): boolean {
  return valueInFile(line)[0] === POISON;
}

function valueInFile(line: Pick<LineBytes, "read">): BigInt64Array<ArrayBuffer> {
  const value = new BigInt64Array(1);
  line.read(VALUE * 8, new Uint8Array(value.buffer));
  return value;
}

/** The bytes of one line. An aligned word is copied at once. */
export interface LineBytes {
  read(byteOffset: number, into: Uint8Array): void;
  write(byteOffset: number, bytes: Uint8Array): void;
}

/**
 * Checks a value to signal or to wait for. Numbers stay numbers, because drivers take them faster
 * than bigints.
 */
export function checkValue(what: string, value: number | bigint): number | bigint {
  if (typeof value === "number" && Number.isSafeInteger(value)) {
    // Every safe integer is below VALUE_MAX.
    if (value >= 0) return value;
  } else if (typeof value !== "bigint") {
    throw new TypeError(`${what} must be an integer, not ${shownValue(value)}`);
  } else if (value >= 0n && value <= VALUE_MAX) {
    return value;
  }
  throw new RangeError(`${what} must be from 0 to 2^63 - 2, not ${value}`);
}

/**
 * True if the timeline has reached the value.
 * @throws PEER_GONE if it ended before
 */
export function checkReached(
  label: string,
  { value, ended }: LineState,
  wanted: number | bigint,
): boolean {
  if (value >= wanted) return true;
  if (!ended) return false;
  throw new CudaIpcError(
    "PEER_GONE",
    `Timeline "${label}" ended at ${value} and will never reach ${wanted}: its owner is gone`,
  );
}
