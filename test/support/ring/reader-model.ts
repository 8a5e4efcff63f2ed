/**
 * The model of a ring's reader: its next message, the messages it missed and holds, and the pending
 * work of its streams.
 */
import assert from "node:assert/strict";
import { hasCode } from "../../../src/base/errors.js";
import { CLAIMS } from "../../../src/ring/channel-layout.js";
import type { RingReader, TakenMessage } from "../../../src/ring/ring-reader.js";
import type { RingRig } from "./ring-rig.js";

export interface ModelMessage {
  readonly position: number;
  readonly sequence: number;
  lost: boolean;
}

export interface ModelHeld {
  readonly taken: TakenMessage;
  readonly claimed: boolean;
  byStream: boolean;
  released: boolean;
}

export class ReaderModel {
  readonly reader: RingReader;
  readonly lossy: boolean;
  readonly held: ModelHeld[] = [];
  next: number;
  /** How often its bell had rung when it fell asleep; undefined while it is awake. */
  asleepRung: number | undefined;
  /** It wrote invalid words, so no promise holds for it. */
  isMad = false;
  readonly #rig: RingRig;
  readonly #seat: number;
  readonly #count: (what: string) => void;
  readonly #stream: { readonly value: number; readonly held: ModelHeld }[] = [];
  #sequence: number | undefined;
  #received = 0;
  #missed = 0;
  /** Messages missed since the last one that was taken. */
  #gap = 0;

  /** @param oldest the first position that the writer may not overwrite yet */
  constructor(
    rig: RingRig,
    seat: number,
    reader: RingReader,
    {
      messages,
      oldest,
      count,
    }: { messages: readonly ModelMessage[]; oldest: number; count: (what: string) => void },
  ) {
    this.#rig = rig;
    this.#seat = seat;
    this.#count = count;
    this.reader = reader;
    this.next = reader.position;
    this.lossy = reader.lossy;
    const isTold =
      this.next === rig.facts.firstPosition || messages.some(({ position }) => position >= oldest);
    // WHY only a lossy reader: the others lose no message, so they need not know.
    if (this.lossy && isTold)
      this.#sequence = messages.filter(({ position }) => position < this.next).length;
    else if (this.lossy) count("nothing says what comes first");
  }

  /** The first position that it still needs. */
  get needs(): number {
    return this.held[0]?.taken.position ?? this.next;
  }

  /** Whether it keeps the writer from this slot by a claim. */
  claims(slot: number): boolean {
    return this.#claimed.some(({ taken }) => taken.slot === slot);
  }

  get #claimed(): ModelHeld[] {
    const held = this.held.filter(({ released, byStream }) => !released || byStream);
    return [...held, ...this.#stream.map(({ held }) => held)].filter(({ claimed }) => claimed);
  }

  /** Whether its streams may still read this slot, which it gave back. */
  isReading(slot: number): boolean {
    return this.#stream.some(({ held }) => !held.claimed && held.taken.slot === slot);
  }

  check(): void {
    for (const { taken, released, byStream } of this.held) {
      if (!released || byStream) this.#rig.assertIntact(taken, "held:");
    }
    for (const { held } of this.#stream) this.#rig.assertIntact(held.taken, "read by a stream:");
    const { received, missed, position, heldCount } = this.reader;
    assert.deepEqual(
      { received, missed, position, heldCount },
      {
        received: this.#received,
        missed: this.#missed,
        position: this.next,
        heldCount: this.held.length,
      },
    );
  }

  /** @param oldest the first position that the writer may not overwrite yet */
  take(messages: readonly ModelMessage[], published: number, oldest: number): boolean {
    if (this.lossy && this.#claimed.length >= CLAIMS && this.next < published) {
      assert.throws(
        () => this.reader.tryTake(),
        (error) => hasCode(error, "LIMIT_EXCEEDED"),
      );
      this.#count("holds too many");
      return false;
    }
    const from = this.lossy ? Math.max(this.next, oldest) : this.next;
    const ahead = messages.filter(({ position }) => position >= from);
    const wanted = ahead.find(({ lost }) => !lost);
    for (const { sequence, lost } of wanted === undefined
      ? ahead
      : ahead.slice(0, ahead.indexOf(wanted) + 1)) {
      const missed = sequence - (this.#sequence ?? sequence) + (lost ? 1 : 0);
      this.#sequence = sequence + 1;
      this.#missed += missed;
      this.#gap += missed;
    }
    const taken = this.reader.tryTake();
    assert.equal(
      taken?.sequence,
      wanted?.sequence,
      `the message that the reader at ${this.#seat} takes`,
    );
    if (taken === undefined || wanted === undefined) {
      this.next = Math.max(from, published);
      return false;
    }
    this.#rig.assertIntact(taken, "taken:");
    assert.equal(taken.position, wanted.position, "its position");
    assert.equal(taken.missed, this.#gap, "missed before it");
    this.#gap = 0;
    this.next = wanted.position + 1;
    this.#received += 1;
    this.held.push({ taken, claimed: this.lossy, byStream: false, released: false });
    this.#count(taken.missed > 0 ? "taken after some were missed" : "taken");
    if (taken.missed > 0 && this.#received === 1) this.#count("some missed before the first");
    return true;
  }

  release(held: ModelHeld, byStream: boolean): void {
    held.released = true;
    held.byStream = byStream;
    const values: number[] = [];
    this.reader.release(held.taken, byStream ? (value) => values.push(value) : undefined);
    for (let first = this.held[0]; first?.released; first = this.held[0]) {
      this.held.shift();
      if (!first.byStream) continue;
      const value = first.taken.position + 1;
      if (first === held) assert.deepEqual(values, [value], "the value that the stream gets");
      this.#stream.push({ value, held: first });
      this.#count("given back by a stream");
    }
    assert.equal(this.#rig.pages[this.#seat]?.released, this.needs, "released");
  }

  /** Does the next pending work of its stream. @returns false if there is none */
  finishNext(): boolean {
    const first = this.#stream.shift();
    if (first !== undefined) this.#rig.pages[this.#seat]?.setDone(first.value);
    return first !== undefined;
  }

  finishStreams(): void {
    while (this.finishNext());
  }

  /** @param published the position after the last published one */
  sleep(published: number): void {
    if (this.asleepRung !== undefined) return;
    this.reader.fallAsleep();
    this.asleepRung = this.#rig.rung[this.#seat] as number;
    if (this.next < published) this.wake();
  }

  wake(): void {
    if (this.asleepRung === undefined) return;
    this.reader.wakeUp();
    this.asleepRung = undefined;
  }

  /** While it sleeps, its bell rings once when something was published. */
  checkBell(published: number): void {
    if (this.asleepRung === undefined || this.next >= published) return;
    assert.equal(this.#rig.rung[this.#seat], this.asleepRung + 1, `the bell of seat ${this.#seat}`);
    this.#count("rung for a reader");
  }
}
