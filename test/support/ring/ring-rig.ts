/**
 * A ring with its hub, data and bells in memory that a test can inspect. Each word of a slot holds
 * the message's sequence number, so wrong or torn bytes show.
 */
import assert from "node:assert/strict";
import { beginSeat, endSeat, endWriter, type WordsFile } from "../../../src/ring/channel-end.js";
import {
  type ChannelFacts,
  control as controlAt,
  controlByteLength,
  memorySlots,
  PAGE_BYTES,
  page as pageAt,
} from "../../../src/ring/channel-layout.js";
import { createControlFile, openControlFile } from "../../../src/ring/control-file.js";
import type { ControlWords, MessageHeader } from "../../../src/ring/control-words.js";
import { PageWords } from "../../../src/ring/page-words.js";
import { type ReadFrom, RingReader, type TakenMessage } from "../../../src/ring/ring-reader.js";
import { succeed } from "../../../src/ring/ring-succession.js";
import { RingWriter } from "../../../src/ring/ring-writer.js";
import { ringFacts } from "./ring-facts.js";

const SLOT_WORDS = 8;

export interface RingMemory {
  readonly control: ArrayBufferLike;
  readonly pages: readonly ArrayBufferLike[];
  readonly data: ArrayBufferLike;
}

/** The sequence number of the next message, by position. */
export interface RingHistory {
  get(position: number): number | undefined;
  set(position: number, sequence: number): unknown;
}

export interface AttachOptions {
  readonly seat?: number;
  readonly from?: ReadFrom;
  readonly lossy?: boolean;
}

export const plainMessage: Omit<MessageHeader, "sequence"> = {
  timestampMs: 0.5,
  byteLength: 64,
  readyAt: 0,
  epoch: 0,
  flags: 0,
  metaBytes: 0,
};

export function ringMemory(facts: ChannelFacts): RingMemory {
  return {
    control: new SharedArrayBuffer(controlByteLength(facts)),
    pages: Array.from({ length: facts.readersMax }, () => new SharedArrayBuffer(PAGE_BYTES)),
    data: new SharedArrayBuffer(memorySlots(facts) * SLOT_WORDS * 8),
  };
}

export class RingRig {
  readonly facts: ChannelFacts;
  readonly memory: RingMemory;
  readonly control: ControlWords;
  readonly pages: readonly PageWords[];
  readonly data: Float64Array;
  #writer: RingWriter | undefined;
  /** How often the bell of each seat was rung, and that of the writer. */
  readonly rung: number[];
  roomRung = 0;
  /** The lease of the reader at each seat; 0 for none. */
  readonly leases: number[];
  history: RingHistory = new Map();
  readonly #told = new WeakSet<RingReader>();
  #leases = 100;

  /** @param memory of an existing or a new ring; without it, memory of this process */
  constructor(
    options: Partial<ChannelFacts> = {},
    memory?: RingMemory,
    age: "new" | "old" = memory ? "old" : "new",
  ) {
    this.facts = ringFacts(options);
    this.memory = memory ?? ringMemory(this.facts);
    this.control =
      age === "new"
        ? createControlFile(this.memory.control, this.facts)
        : openControlFile("ring", this.memory.control, this.memory.control.byteLength, this.facts);
    this.pages = this.memory.pages.map((buffer) => new PageWords(buffer));
    this.data = new Float64Array(this.memory.data);
    this.rung = this.memory.pages.map(() => 0);
    this.leases = this.memory.pages.map(() => 0);
  }

  /** Created at its first use: a reader in another thread or process has no writer. */
  get writer(): RingWriter {
    this.#writer ??= this.newWriter();
    return this.#writer;
  }

  set writer(writer: RingWriter) {
    this.#writer = writer;
  }

  newWriter(): RingWriter {
    return new RingWriter(this.control, this.pages, (seat) => {
      this.rung[seat] = (this.rung[seat] as number) + 1;
    });
  }

  /** Prepares a seat, as the hub does, and attaches a reader to it. */
  attach({ seat = 0, from = "next", lossy = false }: AttachOptions = {}): RingReader {
    this.beginSeat(seat);
    return this.reader({ seat, from, lossy });
  }

  beginSeat(seat: number): void {
    this.#leases += 1;
    this.leases[seat] = this.#leases;
    beginSeat(wordsFile(this.memory.pages[seat] as ArrayBufferLike), this.#leases);
  }

  /** Attaches a reader to a prepared seat. */
  reader({ seat = 0, from = "next", lossy = false }: AttachOptions = {}): RingReader {
    const ring = () => {
      this.roomRung += 1;
    };
    const lease = this.leases[seat] as number;
    // WHY its own words: a reader in another process has its own too.
    const control = openControlFile(
      "ring",
      this.memory.control,
      this.memory.control.byteLength,
      this.facts,
    );
    const page = new PageWords(this.memory.pages[seat] as ArrayBufferLike);
    const before = this.#tells();
    const reader = new RingReader(control, page, {
      label: "ring",
      seat,
      lease,
      from,
      lossy,
      ring,
    });
    // WHY not if another thread writes: what it wrote in between is unknown.
    if (before && this.#tells() && this.#writer !== undefined) this.#told.add(reader);
    return reader;
  }

  /**
   * Whether headers surely told this reader what comes first, whatever the writer did meanwhile.
   */
  isTold(reader: RingReader): boolean {
    return this.#told.has(reader);
  }

  /** The sequence number of the first message from `position` to `last`. */
  firstSequence(position: number, last: number): number | undefined {
    for (let at = position; at <= last; at += 1) {
      const sequence = this.history.get(at);
      if (sequence !== undefined) return sequence;
    }
    return undefined;
  }

  /** Whether a message is there that the writer may not overwrite yet, or none was ever written. */
  #tells(): boolean {
    const { slots, firstPosition } = this.facts;
    // WHY its own view of the words: no other operation may run between the reads.
    const words = new BigInt64Array(this.memory.control);
    const published = Number(words[controlAt.published / 8]);
    const limit = Number(words[controlAt.limit / 8]);
    for (
      let at = Math.max(firstPosition, limit - slots);
      at < Math.min(published, limit);
      at += 1
    ) {
      if (this.control.generation(at % slots) === at + 1) return true;
    }
    return published === firstPosition;
  }

  endSeat(seat: number): void {
    this.leases[seat] = 0;
    endSeat(wordsFile(this.memory.pages[seat] as ArrayBufferLike));
  }

  endWriter(): void {
    endWriter(
      wordsFile(this.memory.control),
      this.facts.whenWriterGone === "wait" ? "awaited" : "gone",
    );
  }

  /** Replaces the ended writer with the next one. */
  succeed(reached = 0): RingWriter {
    succeed("ring", this.control, { reached });
    this.control.setState("open");
    this.writer = this.newWriter();
    return this.writer;
  }

  /** Writes the next message, if there is room. @returns its sequence */
  put(message: Partial<MessageHeader> = {}): number | undefined {
    if (!this.writer.reserve()) return undefined;
    this.fill();
    const sequence = this.writer.commit({ ...plainMessage, ...message });
    // WHY here: another process may write the next message.
    this.history.set(this.writer.position, sequence + 1);
    return sequence;
  }

  puts(count: number): void {
    for (let index = 0; index < count; index += 1)
      assert.notEqual(this.put(), undefined, `put ${index} of ${count}`);
  }

  /** Writes the data of the next message. */
  fill(): void {
    const { slot, sequence, position } = this.writer;
    this.history.set(position, sequence);
    this.data.fill(sequence, slot * SLOT_WORDS, (slot + 1) * SLOT_WORDS);
  }

  /** Checks that each word of the slot is the message's sequence number. */
  assertIntact({ slot, sequence }: Pick<TakenMessage, "slot" | "sequence">, when = ""): void {
    for (let index = 0; index < SLOT_WORDS; index += 1) {
      const found = this.data[slot * SLOT_WORDS + index];
      if (found !== sequence)
        assert.fail(`${when} slot ${slot} holds ${found}, wanted message ${sequence}`);
    }
  }

  /** Takes all messages, and releases each at once. */
  drain(reader: RingReader): number[] {
    const sequences: number[] = [];
    for (let taken = reader.tryTake(); taken !== undefined; taken = reader.tryTake()) {
      this.assertIntact(taken);
      sequences.push(taken.sequence);
      reader.release(taken);
    }
    return sequences;
  }

  /** Writes any word into a reader's page, as a faulty reader could. */
  scribble(seat: number, name: keyof typeof pageAt, value: number | bigint, index = 0): void {
    const buffer = this.memory.pages[seat] as ArrayBufferLike;
    const byteOffset = pageAt[name] + index * 8;
    if (name === "state" || name === "mode" || name === "asleep") {
      Atomics.store(new Uint32Array(buffer), byteOffset / 4, Number(value));
    } else Atomics.store(new BigInt64Array(buffer), byteOffset / 8, BigInt(value));
  }
}

export function wordsFile(buffer: ArrayBufferLike): WordsFile {
  const all = new Uint8Array(buffer);
  return {
    read: (byteOffset, bytes) => bytes.set(all.subarray(byteOffset, byteOffset + bytes.byteLength)),
    write: (byteOffset, bytes) => all.set(bytes, byteOffset),
  };
}
