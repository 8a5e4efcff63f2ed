/** Checks what readers of a ring get: bytes, order, and missed messages. */
import assert from "node:assert/strict";
import type { RingReader, TakenMessage } from "../../../src/ring/ring-reader.js";
import type { RingRig } from "./ring-rig.js";

export class Watched {
  readonly reader: RingReader;
  readonly sequences: number[] = [];
  readonly held: TakenMessage[] = [];
  readonly #rig: RingRig;
  readonly #begin: number;

  /** @param reader one that has taken nothing yet */
  constructor(rig: RingRig, reader: RingReader) {
    this.#rig = rig;
    this.reader = reader;
    this.#begin = reader.position;
  }

  /** Takes a message and holds it. */
  take(): TakenMessage | undefined {
    const taken = this.reader.tryTake();
    if (taken === undefined) return undefined;
    this.#rig.assertIntact(taken, "taken:");
    const last = this.sequences.at(-1);
    if (last === undefined) this.#checkFirst(taken);
    else assert.equal(taken.missed, taken.sequence - last - 1, "missed before it");
    assert.ok(
      taken.missed === 0 || this.reader.lossy,
      "a reader that is waited for misses nothing",
    );
    this.sequences.push(taken.sequence);
    this.held.push(taken);
    return taken;
  }

  /**
   * Messages lost since this reader attached count as missed. None count if no header told it what
   * comes first.
   */
  #checkFirst({ position, sequence, missed }: TakenMessage): void {
    if (!this.reader.lossy) return;
    const first = this.#rig.firstSequence(this.#begin, position);
    assert.notEqual(first, undefined, "the first message is known");
    const lost = sequence - Number(first);
    if (missed === 0 && !this.#rig.isTold(this.reader)) return;
    assert.equal(missed, lost, "missed before the first");
  }

  release(which = 0): void {
    const [taken] = this.held.splice(which, 1);
    if (taken === undefined) return;
    this.#rig.assertIntact(taken, "until it is released:");
    this.reader.release(taken);
  }

  assertIntact(): void {
    for (const taken of this.held) this.#rig.assertIntact(taken, "held:");
  }

  /** Releases all held messages, then takes all others. @returns the last sequence number */
  drain(): number | undefined {
    while (this.held.length > 0) this.release();
    while (this.take() !== undefined) this.release();
    return this.sequences.at(-1);
  }

  detach(): void {
    this.assertIntact();
    this.held.length = 0;
    this.reader.detach();
  }
}

/** Checks that the ring goes on, and that all readers get everything from here on. */
export function assertGoesOn(rig: RingRig, readers: readonly Watched[]): void {
  for (const watched of readers) {
    watched.assertIntact();
    watched.drain();
  }
  for (let round = 0; round < rig.facts.slots + 2; round += 1) {
    const sequence = rig.put();
    assert.notEqual(sequence, undefined, "there is room when all is released");
    for (const watched of readers)
      assert.equal(watched.drain(), sequence, "each reader gets the message");
  }
}
