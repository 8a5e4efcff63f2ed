/**
 * The control file of a channel: what never changes, written once and checked by whoever opens it, and the writer's words. Who may
 * change them is the writer alone; here is what they are, in writer and reader what they mean.
 */

import { CudaIpcError } from "../base/errors.js";
import { LINE_BYTES } from "../base/timeline-line.js";
import {
  CHANNEL_VERSION,
  type ChannelFacts,
  control,
  controlByteLength,
  HEADERS_AT,
  header,
  headerStrideOf,
  MAGIC,
  POSITIONS_MAX,
  RANK_MAX,
  READY_LINES,
  whenFullPolicies,
  whenWriterGonePolicies,
  writerStates,
} from "./channel-layout.js";
import { GrowingWords, RingWords } from "./ring-words.js";

/** What a slot's header says of its message. */
export interface MessageHeader {
  readonly sequence: number;
  readonly timestampMs: number;
  readonly byteLength: number;
  /** The value of the writer's timeline from which on the data are there; 0 where they are. */
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

  private constructor(words: RingWords, facts: ChannelFacts) {
    this.#words = words;
    this.facts = facts;
    this.#headerStride = headerStrideOf(facts.metaBytesMax);
    this.#published = new GrowingWords(words, control.published, { count: 1, stride: 0 });
    this.#limit = new GrowingWords(words, control.limit, { count: 1, stride: 0 });
    const headers = { count: facts.slots, stride: this.#headerStride };
    this.#generations = new GrowingWords(words, HEADERS_AT + header.generation, headers);
  }

  /** Writes what never changes into zeroed memory, for a writer that is there. */
  static create(buffer: ArrayBufferLike, facts: ChannelFacts): ControlWords {
    const words = new RingWords(buffer, 0, controlByteLength(facts));
    words.setWord32(control.version, CHANNEL_VERSION);
    for (const name of ["slots", "readersMax", "metaBytesMax"] as const) words.setWord32(control[name], facts[name]);
    for (const name of ["slotBytes", "slotStride", "firstPosition"] as const)
      words.setCount(control[name], facts[name]);
    words.setWord32(control.headersAt, HEADERS_AT);
    words.setWord32(control.headerStride, headerStrideOf(facts.metaBytesMax));
    words.setWord32(control.whenFull, whenFullPolicies.indexOf(facts.whenFull));
    words.setWord32(control.whenWriterGone, whenWriterGonePolicies.indexOf(facts.whenWriterGone));
    words.setCount(control.published, facts.firstPosition);
    words.setCount(control.limit, facts.firstPosition);
    words.store32(control.state, writerStates.open);
    words.setWord32(control.magic, MAGIC[0]);
    words.setWord32(control.magic + 4, MAGIC[1]);
    return new ControlWords(words, facts);
  }

  /**
   * The control file of another process.
   * @param wanted what its descriptor says it is
   * @throws PROTOCOL_MISMATCH for a layout of another version, INVALID_DESCRIPTOR for what is none, or not what is wanted
   */
  static open(
    label: string,
    buffer: ArrayBufferLike,
    byteLength: number,
    wanted: Omit<ChannelFacts, "firstPosition">,
  ): ControlWords {
    const refuse = (found: string) =>
      new CudaIpcError("INVALID_DESCRIPTOR", `Cannot open channel "${label}": its control file ${found}`);
    if (byteLength < controlByteLength(wanted)) {
      throw refuse(`has ${byteLength} bytes, wanted ${controlByteLength(wanted)}`);
    }
    const words = new RingWords(buffer, 0, controlByteLength(wanted));
    if (words.word32(control.magic) !== MAGIC[0] || words.word32(control.magic + 4) !== MAGIC[1]) {
      throw refuse('does not begin with "CIPCCHAN"');
    }
    const version = words.word32(control.version);
    if (version !== CHANNEL_VERSION) {
      const found = `its control file is of version ${version}, wanted ${CHANNEL_VERSION}`;
      throw new CudaIpcError("PROTOCOL_MISMATCH", `Cannot open channel "${label}": ${found}`);
    }
    const facts: ChannelFacts = { ...wanted, firstPosition: words.count(control.firstPosition) };
    const claims: readonly (readonly [string, unknown, unknown])[] = [
      ["headersAt", words.word32(control.headersAt), HEADERS_AT],
      ["headerStride", words.word32(control.headerStride), headerStrideOf(wanted.metaBytesMax)],
      ["slots", words.word32(control.slots), wanted.slots],
      ["readersMax", words.word32(control.readersMax), wanted.readersMax],
      ["metaBytesMax", words.word32(control.metaBytesMax), wanted.metaBytesMax],
      ["slotBytes", words.count(control.slotBytes), wanted.slotBytes],
      ["slotStride", words.count(control.slotStride), wanted.slotStride],
      ["whenFull", whenFullPolicies[words.word32(control.whenFull)], wanted.whenFull],
      ["whenWriterGone", whenWriterGonePolicies[words.word32(control.whenWriterGone)], wanted.whenWriterGone],
    ];
    for (const [name, found, want] of claims) {
      if (found !== want) throw refuse(`says ${name} is ${String(found)}, its descriptor ${String(want)}`);
    }
    if (facts.firstPosition > POSITIONS_MAX) throw refuse(`says firstPosition is ${facts.firstPosition}`);
    return new ControlWords(words, facts);
  }

  /** Positions below have a message, or were passed over. */
  get published(): number {
    // SYNC: what was written of those messages is seen after this. Pairs with `publish`.
    return this.#words.load(control.published);
  }

  publish(position: number): void {
    // SYNC: after the header has said it. Pairs with the load in `published`.
    this.#published.store(0, position);
  }

  /** The writer may write positions below without looking at the readers again. */
  get limit(): number {
    // SYNC: after the claim (or attachment) of the reader that asks: one of the two sides sees the other. Pairs with `setLimit`.
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
    // SYNC: what the writer did before its end is seen after this. Pairs with the store in `setState`, and with the hub's write.
    const found = this.#words.load32(control.state);
    const name = stateNames.find((name) => writerStates[name] === found);
    if (name === undefined)
      throw new CudaIpcError("CHANNEL_CORRUPT", `The state of a channel is ${found}, which is none`);
    return name;
  }

  setState(state: WriterState): void {
    this.#words.store32(control.state, writerStates[state]);
  }

  /** Counts writers. */
  get epoch(): number {
    return this.#words.word32(control.epoch);
  }

  setEpoch(epoch: number): void {
    this.#words.setWord32(control.epoch, epoch);
  }

  /** Odd while the writer waits for its bell. */
  get asleep(): number {
    // SYNC: after what the reader gave back: either the writer sees that, or the reader sees that it sleeps. Pairs with `setAsleep`.
    return this.#words.load32(control.asleep);
  }

  setAsleep(count: number): void {
    // SYNC: before the writer looks once more. Pairs with the load in `asleep`.
    this.#words.store32(control.asleep, count);
  }

  /** The lease at this place whose words made no sense; 0 for none. */
  expelled(place: number): number {
    return this.#words.load(control.expelled + place * 8);
  }

  /** As `expelled`, for one who asks all the time. */
  isExpelled(place: number, lease: number): boolean {
    return this.#words.load32(control.expelled + place * 8) === lease >>> 0 && this.expelled(place) === lease;
  }

  setExpelled(place: number, lease: number): void {
    this.#words.store(control.expelled + place * 8, lease);
  }

  /** Where the timeline of this writer lies. */
  readyOffset(epoch: number): number {
    return control.ready + (epoch % READY_LINES) * LINE_BYTES;
  }

  /** Whether the message of this position is in its slot. */
  isCommitted(slot: number, position: number): boolean {
    // SYNC: what was written of the message before its commit is seen after this. Pairs with `commit`.
    return this.#words.isAt(this.#at(slot) + header.generation, position + 1);
  }

  /** Whether the writer passed this position over, which is of that slot. */
  isPassedOver(slot: number, position: number): boolean {
    return this.#words.isAt(this.#at(slot) + header.passedOver, position + 1);
  }

  /** Whether the writer has come to a position of this slot that is later. */
  isPast(slot: number, position: number): boolean {
    const at = this.#at(slot);
    const beyond = position + 1;
    // WHY twice: the first is quick, and may mix two values.
    if (this.#words.count(at + header.generation) <= beyond && this.#words.count(at + header.passedOver) <= beyond) {
      return false;
    }
    return this.generation(slot) > beyond || this.passedOver(slot) > beyond;
  }

  /** The position of the message in a slot, plus one; 0 before the first. */
  generation(slot: number): number {
    return this.#words.load(this.#at(slot) + header.generation);
  }

  /** The message at this position is complete. */
  commit(slot: number, position: number): void {
    // SYNC: header and data first. Pairs with the loads in `isCommitted` and `generation`.
    this.#generations.store(slot, position + 1);
  }

  /** The position without a message that the slot came to last, plus one. */
  passedOver(slot: number): number {
    return this.#words.load(this.#at(slot) + header.passedOver);
  }

  passOver(slot: number, position: number): void {
    this.#words.store(this.#at(slot) + header.passedOver, position + 1);
  }

  /** Of the message in a slot, for one who asks afterwards whether it was there all the time. */
  sequenceIn(slot: number): number {
    // SYNC: before the load of the limit. Pairs with `setLimit`, which comes before the header is written.
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

  /** The flags alone, asked again of a message whose writer may have died meanwhile. */
  flags(slot: number): number {
    return this.#words.load32(this.#at(slot) + header.flags);
  }

  setFlags(slot: number, flags: number): void {
    this.#words.store32(this.#at(slot) + header.flags, flags);
  }

  /** Of a message that has a shape of its own. Whoever reads it checks it against the bytes of the message. */
  shape(slot: number): number[] {
    const at = this.#at(slot);
    const rank = Math.min(this.#words.word32(at + header.rank), RANK_MAX);
    return Array.from({ length: rank }, (_, axis) => this.#words.count(at + header.shape + axis * 8));
  }

  setShape(slot: number, shape: readonly number[]): void {
    const at = this.#at(slot);
    this.#words.setWord32(at + header.rank, shape.length);
    for (const [axis, length] of shape.entries()) this.#words.setCount(at + header.shape + axis * 8, length);
  }

  /** The meta bytes of a slot, in place. */
  meta(slot: number, byteLength: number): Uint8Array {
    const at = this.#at(slot) + header.meta;
    return this.#words.bytes.subarray(at, at + byteLength);
  }

  #at(slot: number): number {
    return HEADERS_AT + slot * this.#headerStride;
  }
}
