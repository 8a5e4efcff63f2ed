/**
 * The words of a channel's control file: the constant ones, and those that only the writer changes.
 */

import { CudaIpcError } from "../base/errors.js";
import { LINE_BYTES } from "../base/timeline-line.js";
import {
  type ChannelFacts,
  control,
  flags,
  HEADERS_AT,
  header,
  headerStrideOf,
  RANK_MAX,
  READY_LINES,
  writerStates,
} from "./channel-layout.js";
import { GrowingWords, type RingWords } from "./ring-words.js";

/** The header of a slot: facts about its message. */
export interface MessageHeader {
  readonly sequence: number;
  readonly timestampMs: number;
  readonly byteLength: number;
  /** The value of the writer's timeline at which the data is ready; 0 if it is ready at once. */
  readonly readyAt: number;
  readonly epoch: number;
  readonly flags: number;
  readonly metaBytes: number;
}

export type WriterState = keyof typeof writerStates;

const stateNames = Object.keys(writerStates) as WriterState[];

export class ControlWords {
  readonly facts: ChannelFacts;
  readonly #words: RingWords;
  readonly #headerStride: number;
  readonly #published: GrowingWords;
  readonly #limit: GrowingWords;
  readonly #generations: GrowingWords;

  /** Use `createControlFile` or `openControlFile`. */
  constructor(words: RingWords, facts: ChannelFacts) {
    this.#words = words;
    this.facts = facts;
    this.#headerStride = headerStrideOf(facts.metaBytesMax);
    this.#published = new GrowingWords(words, control.published, { count: 1, stride: 0 });
    this.#limit = new GrowingWords(words, control.limit, { count: 1, stride: 0 });
    const headers = { count: facts.slots, stride: this.#headerStride };
    this.#generations = new GrowingWords(words, HEADERS_AT + header.generation, headers);
  }

  /** All positions below have a message or were passed over. */
  get published(): number {
    // SYNC: what was written of those messages is visible after this load. Pairs with `publish`.
    return this.#words.load(control.published);
  }

  publish(position: number): void {
    // SYNC: after the header. Pairs with the load in `published`.
    this.#published.store(0, position);
  }

  /** The writer may write all positions below without another look at the readers. */
  get limit(): number {
    // SYNC: after the reader's own claim or attachment, so at least one side sees the other. Pairs
    // with `setLimit`.
    return this.#words.load(control.limit);
  }

  setLimit(position: number): void {
    // SYNC: before the writer looks at the readers. Pairs with the load in `limit`.
    this.#limit.store(0, position);
  }

  get sequence(): number {
    return this.#words.count(control.sequence);
  }

  setSequence(sequence: number): void {
    this.#words.setCount(control.sequence, sequence);
  }

  get dropped(): number {
    return this.#words.count(control.dropped);
  }

  setDropped(dropped: number): void {
    this.#words.setCount(control.dropped, dropped);
  }

  /** @throws CHANNEL_CORRUPT */
  get state(): WriterState {
    // SYNC: what the writer did before its end is visible after this load. Pairs with `setState`
    // and with the hub's write.
    const found = this.#words.load32(control.state);
    const name = stateNames.find((name) => writerStates[name] === found);
    if (name === undefined)
      throw new CudaIpcError(
        "CHANNEL_CORRUPT",
        `Cannot use a channel: its state is ${found}, which is unknown`,
      );
    return name;
  }

  setState(state: WriterState): void {
    this.#words.store32(control.state, writerStates[state]);
  }

  /** The number of writers before this one. */
  get epoch(): number {
    return this.#words.word32(control.epoch);
  }

  setEpoch(epoch: number): void {
    this.#words.setWord32(control.epoch, epoch);
  }

  /** Odd while the writer waits for its bell. */
  get asleep(): number {
    // SYNC: after the reader has given a slot back, so at least one side sees the other. Pairs with
    // `setAsleep`.
    return this.#words.load32(control.asleep);
  }

  setAsleep(count: number): void {
    // SYNC: before the writer looks once more. Pairs with the load in `asleep`.
    this.#words.store32(control.asleep, count);
  }

  /** The lease in this seat that was expelled; 0 for none. */
  expelled(seat: number): number {
    return this.#words.load(control.expelled + seat * 8);
  }

  /** Compares like `expelled`, but faster in the usual case. */
  isExpelled(seat: number, lease: number): boolean {
    return (
      this.#words.load32(control.expelled + seat * 8) === lease >>> 0 &&
      this.expelled(seat) === lease
    );
  }

  setExpelled(seat: number, lease: number): void {
    this.#words.store(control.expelled + seat * 8, lease);
  }

  /** The byte offset of the timeline of this writer. */
  readyOffset(epoch: number): number {
    return control.ready + (epoch % READY_LINES) * LINE_BYTES;
  }

  /** The slot holds the message of this position. */
  isCommitted(slot: number, position: number): boolean {
    // SYNC: what was written of the message before its commit is visible after this. Pairs with
    // `commit`.
    return this.#words.isAt(this.#at(slot) + header.generation, position + 1);
  }

  /** The writer passed over this position of the slot. */
  isPassedOver(slot: number, position: number): boolean {
    return this.#words.isAt(this.#at(slot) + header.passedOver, position + 1);
  }

  /** The writer has come to a later position of this slot. */
  isPast(slot: number, position: number): boolean {
    const at = this.#at(slot);
    const beyond = position + 1;
    // WHY twice: the first comparison is quick but may mix two values.
    if (
      this.#words.count(at + header.generation) <= beyond &&
      this.#words.count(at + header.passedOver) <= beyond
    ) {
      return false;
    }
    return this.generation(slot) > beyond || this.passedOver(slot) > beyond;
  }

  /** The position of the slot's message plus one; 0 before the first message. */
  generation(slot: number): number {
    return this.#words.load(this.#at(slot) + header.generation);
  }

  /** Marks the message of this position as complete. */
  commit(slot: number, position: number): void {
    // SYNC: header and data first. Pairs with the loads in `isCommitted` and `generation`.
    this.#generations.store(slot, position + 1);
  }

  /** The last position of the slot that was passed over, plus one. */
  passedOver(slot: number): number {
    return this.#words.load(this.#at(slot) + header.passedOver);
  }

  passOver(slot: number, position: number): void {
    this.#words.store(this.#at(slot) + header.passedOver, position + 1);
  }

  /**
   * The sequence number in a slot, for a reader that checks afterwards whether it was overwritten.
   */
  sequenceIn(slot: number): number {
    // SYNC: before the load of the limit. Pairs with `setLimit`, which comes before the header is
    // written.
    return this.#words.load(this.#at(slot) + header.sequence);
  }

  header(slot: number): MessageHeader {
    const words = this.#words;
    const at = this.#at(slot);
    return {
      sequence: words.count(at + header.sequence),
      timestampMs: words.number(at + header.timestampMs),
      byteLength: words.count(at + header.byteLength),
      readyAt: words.count(at + header.readyAt),
      epoch: words.word32(at + header.epoch),
      flags: words.word32(at + header.flags),
      metaBytes: words.word32(at + header.metaBytes),
    };
  }

  setHeader(slot: number, sequence: number, message: Omit<MessageHeader, "sequence">): void {
    const words = this.#words;
    const at = this.#at(slot);
    words.setCount(at + header.sequence, sequence);
    words.setNumber(at + header.timestampMs, message.timestampMs);
    words.setCount(at + header.byteLength, message.byteLength);
    words.setCount(at + header.readyAt, message.readyAt);
    words.setWord32(at + header.epoch, message.epoch);
    words.setWord32(at + header.flags, message.flags);
    words.setWord32(at + header.metaBytes, message.metaBytes);
  }

  /** The flags alone, read again for a message whose writer may have died meanwhile. */
  flags(slot: number): number {
    return this.#words.load32(this.#at(slot) + header.flags);
  }

  setFlags(slot: number, flags: number): void {
    this.#words.store32(this.#at(slot) + header.flags, flags);
  }

  /** The shape of a message that has its own. The reader checks it against the message's bytes. */
  shape(slot: number): number[] {
    const at = this.#at(slot);
    const rank = Math.min(this.#words.word32(at + header.rank), RANK_MAX);
    return Array.from({ length: rank }, (_, axis) =>
      this.#words.count(at + header.shape + axis * 8),
    );
  }

  setShape(slot: number, shape: readonly number[]): void {
    const at = this.#at(slot);
    this.#words.setWord32(at + header.rank, shape.length);
    for (const [axis, length] of shape.entries())
      this.#words.setCount(at + header.shape + axis * 8, length);
  }

  /** The meta bytes of a slot, without a copy. */
  meta(slot: number, byteLength: number): Uint8Array {
    const at = this.#at(slot) + header.meta;
    return this.#words.bytes.subarray(at, at + byteLength);
  }

  #at(slot: number): number {
    return HEADERS_AT + slot * this.#headerStride;
  }
}

const KNOWN_FLAGS = flags.json | flags.shaped | flags.lost;

/** Says why the header of another process is not valid. Undefined if it is. */
export function contradictionOf(
  { byteLength, metaBytes, sequence, readyAt, flags: found }: MessageHeader,
  { slotBytes, metaBytesMax }: ChannelFacts,
  position: number,
): string | undefined {
  const isWrong =
    byteLength > slotBytes ||
    metaBytes > metaBytesMax ||
    !Number.isSafeInteger(sequence) ||
    readyAt > position + 1 ||
    (found & ~KNOWN_FLAGS) !== 0;
  if (!isWrong) return undefined;
  return (
    `message ${sequence} of ${byteLength} bytes, ready at ${readyAt}, ` +
    `with ${metaBytes} of meta and flags ${found}`
  );
}
