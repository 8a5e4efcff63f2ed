/**
 * What a ring must do, in plain lists: which message each reader gets next and how many it missed, whether the writer has room, who is
 * rung for. Applies each command to the ring and to itself, and compares. Only `limit` is taken from the ring: how far ahead the writer
 * looks is its own choice, within its promise.
 */
import assert from "node:assert/strict";
import { hasCode } from "../../../src/base/errors.js";
import { CLAIMS, flags, POSITIONS_MAX, type page, windowOf } from "../../../src/ring/channel-layout.js";
import type { ReadFrom, RingReader, TakenMessage } from "../../../src/ring/ring-reader.js";
import type { RingRig } from "./ring-rig.js";
import { dieAt } from "./shared-accesses.js";

export type RingCommand =
  | { readonly do: "put" | "drop" | "passOver" | "sleepWriter" | "wakeWriter" }
  | { readonly do: "attach"; readonly place: number; readonly from: ReadFrom; readonly mayBeOvertaken: boolean }
  | { readonly do: "take" | "detach" | "die" | "sleep" | "wake" | "finishStream"; readonly place: number }
  | { readonly do: "release"; readonly place: number; readonly which: number; readonly byStream: boolean }
  | { readonly do: "dieTaking"; readonly place: number; readonly at: number }
  | { readonly do: "writerDies"; readonly at: number; readonly unfinished: number }
  | { readonly do: "nonsense"; readonly place: number; readonly word: keyof typeof page; readonly value: bigint };

interface Message {
  readonly position: number;
  readonly sequence: number;
  lost: boolean;
}

interface Held {
  readonly taken: TakenMessage;
  readonly claimed: boolean;
  byStream: boolean;
  released: boolean;
}

interface Reader {
  readonly reader: RingReader;
  readonly mayBeOvertaken: boolean;
  next: number;
  sequence: number | undefined;
  received: number;
  missed: number;
  /** Missed since the last that was taken. */
  gap: number;
  held: Held[];
  /** What its streams have not done yet, in order. */
  readonly stream: { readonly value: number; readonly held: Held }[];
  asleepRung: number | undefined;
  isMad: boolean;
}

export class RingModel {
  readonly rig: RingRig;
  /** What was seen, so that a run can tell that it saw it. */
  readonly seen = new Map<string, number>();
  readonly #messages: Message[] = [];
  readonly #readers: (Reader | undefined)[];
  #sequence = 0;
  #position: number;
  #limit: number;
  #dropped = 0;
  #roomRungAtSleep: number | undefined;

  constructor(rig: RingRig) {
    this.rig = rig;
    this.#position = rig.facts.firstPosition;
    this.#limit = rig.facts.firstPosition;
    this.#readers = rig.leases.map(() => undefined);
  }

  apply(command: RingCommand): void {
    if ("place" in command) this.#applyToPlace(command);
    else if (command.do === "writerDies") this.#writerDies(command.at, command.unfinished);
    else if (command.do === "put") this.#put();
    else if (command.do === "passOver") this.#passOver();
    else if (command.do === "sleepWriter") this.#sleepWriter();
    else if (command.do === "wakeWriter") this.#wakeWriter();
    else {
      this.rig.writer.drop();
      this.#dropped += 1;
    }
    this.#check();
  }

  /** At the end: those who are waited for get all that is left, and then the writer has room. */
  end(): void {
    for (const [place, reader] of this.#readers.entries()) {
      if (reader === undefined || reader.isMad) continue;
      this.#finishStreams(reader);
      for (const held of [...reader.held]) this.#release(place, reader, held, false);
      while (this.#take(place, reader)) for (const held of [...reader.held]) this.#release(place, reader, held, false);
      assert.equal(reader.next, this.#position, "a reader is at the end");
    }
    this.#check();
    if (this.#position <= POSITIONS_MAX) assert.ok(this.#put(), "there is room when all is given back");
  }

  #applyToPlace(command: Extract<RingCommand, { readonly place: number }>): void {
    const { place } = command;
    const reader = this.#readers[place];
    if (reader === undefined) {
      if (command.do === "attach") this.#attach(command);
      return;
    }
    if (command.do === "detach" || command.do === "die") this.#leave(place, reader, command.do);
    else if (reader.isMad) this.#takeMad(place, reader);
    else if (command.do === "take") this.#take(place, reader);
    else if (command.do === "dieTaking") this.#dieTaking(place, reader, command.at);
    else if (command.do === "sleep") this.#sleep(place, reader);
    else if (command.do === "wake") this.#wake(reader);
    else if (command.do === "finishStream") this.#finishStream(reader);
    else if (command.do === "nonsense") this.#goMad(place, reader, command.word, command.value);
    else if (command.do === "release") {
      const open = reader.held.filter((held) => !held.released);
      const held = open[command.which % open.length];
      if (held !== undefined) this.#release(place, reader, held, command.byStream);
    }
  }

  #count(what: string): void {
    this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
  }

  // What the words must be whatever was done.
  #check(): void {
    const { control, facts } = this.rig;
    assert.equal(control.published, this.#position, "published");
    assert.equal(control.dropped, this.#dropped, "dropped");
    const { limit } = control;
    assert.ok(limit >= this.#limit, "the limit never decreases");
    assert.ok(limit >= this.#position && limit <= this.#position + windowOf(facts.slots), "the limit is near");
    this.#limit = limit;
    for (const reader of this.#sane()) {
      for (const held of reader.held) if (!held.released || held.byStream) this.rig.assertIntact(held.taken, "held:");
      for (const { held } of reader.stream) this.rig.assertIntact(held.taken, "read by a stream:");
      assert.equal(reader.reader.received, reader.received, "received");
      assert.equal(reader.reader.missed, reader.missed, "missed");
      assert.equal(reader.reader.position, reader.next, "the position of a reader");
      assert.equal(reader.reader.heldCount, reader.held.length, "how many a reader holds");
    }
  }

  #sane(): Reader[] {
    return this.#readers.filter((reader): reader is Reader => reader !== undefined && !reader.isMad);
  }

  #oldest(): number {
    return Math.max(this.rig.facts.firstPosition, this.rig.control.limit - this.rig.facts.slots);
  }

  #isHeld(slot: number): boolean {
    return this.#sane().some(({ held, stream }) =>
      [...held.filter(({ released, byStream }) => !released || byStream), ...stream.map(({ held }) => held)].some(
        ({ taken, claimed }) => claimed && taken.slot === slot,
      ),
    );
  }

  /** Where the next message goes; undefined where there is no room. */
  #room(): { readonly position: number | undefined; readonly passedTo: number } {
    const { slots } = this.rig.facts;
    let bound = Number.POSITIVE_INFINITY;
    for (const { mayBeOvertaken, held, next } of this.#sane()) {
      if (!mayBeOvertaken) bound = Math.min(bound, (held[0]?.taken.position ?? next) + slots);
    }
    const isFree = Array.from({ length: slots }, (_, slot) => slot).some((slot) => !this.#isHeld(slot));
    let position = this.#position;
    for (; position < bound; position += 1) {
      if (!this.#isHeld(position % slots)) return { position, passedTo: position };
      if (!isFree) break;
    }
    return { position: undefined, passedTo: position };
  }

  #put(): boolean {
    const { rig } = this;
    const { writer } = rig;
    if (this.#position > POSITIONS_MAX) {
      if (this.#position >= this.#limit) {
        assert.throws(
          () => writer.reserve(),
          (error) => hasCode(error, "LIMIT_EXCEEDED"),
        );
        this.#count("the end of the numbers");
      }
      return false;
    }
    const { position, passedTo } = this.#room();
    const rungBefore = [...rig.rung];
    if (passedTo !== this.#position) this.#count("held slots are passed over");
    assert.equal(writer.reserve(), position !== undefined, "room");
    assert.equal(writer.reserve(), position !== undefined, "room, asked again");
    assert.equal(writer.position, passedTo, "the position of the writer");
    this.#position = passedTo;
    if (position === undefined) {
      this.#count("no room");
      this.#checkBells(rungBefore, passedTo);
      return false;
    }
    this.#waitForStreams(position);
    rig.fill();
    assert.equal(writer.commit(message(position, rig.control.epoch)), this.#sequence, "the sequence");
    this.#committed();
    this.#checkBells(rungBefore, this.#position);
    return true;
  }

  #committed(): void {
    this.#messages.push({ position: this.#position, sequence: this.#sequence, lost: false });
    this.#sequence += 1;
    this.#position += 1;
    this.#count("put");
  }

  /** A reader that sleeps is rung for once when something was published. */
  #checkBells(before: readonly number[], published: number): void {
    for (const [place, reader] of this.#readers.entries()) {
      if (reader === undefined || reader.isMad || reader.asleepRung === undefined || reader.next >= published) continue;
      const rung = this.rig.rung[place] as number;
      assert.equal(rung, reader.asleepRung + 1, `bell of place ${place}, which had rung ${before[place]} times`);
      this.#count("rung for a reader");
    }
  }

  /** As a channel does before it writes to a slot. */
  #waitForStreams(position: number): void {
    const slot = position % this.rig.facts.slots;
    const isReading = ({ stream }: Reader) => stream.some(({ held }) => !held.claimed && held.taken.slot === slot);
    const wanted = new Set(this.#sane().filter(isReading));
    this.rig.writer.pendingReleases((place, value) => {
      const reader = this.#readers[place];
      if (reader === undefined || reader.isMad) return;
      while ((this.rig.pages[place]?.done ?? value) < value) this.#finishStream(reader, true);
      assert.ok(!isReading(reader), "a stream that was waited for has done with the slot");
      wanted.delete(reader);
      this.#count("the writer waits for a stream");
    });
    assert.equal(wanted.size, 0, "readers whose streams are still at work on the slot");
  }

  #passOver(): void {
    if (this.#position > POSITIONS_MAX) return;
    const { position } = this.#room();
    const before = [...this.rig.rung];
    if (!this.rig.writer.reserve()) {
      this.#position = this.rig.writer.position;
      this.#checkBells(before, this.#position);
      return;
    }
    assert.equal(this.rig.writer.position, position, "the position that is passed over");
    this.#position = position as number;
    this.#waitForStreams(this.#position);
    // What the loan wrote before it was given up.
    this.rig.data.fill(-1, this.rig.writer.slot * 8, (this.rig.writer.slot + 1) * 8);
    this.rig.writer.passOver();
    this.#position += 1;
    this.#count("passed over");
    this.#checkBells(before, this.#position);
  }

  #attach({ place, from, mayBeOvertaken }: Extract<RingCommand, { readonly do: "attach" }>): void {
    const { rig } = this;
    const oldest = this.#oldest();
    const begins: Record<ReadFrom, number> = {
      next: this.#position,
      oldest: this.#position - rig.facts.slots,
      latest: this.#messages.findLast(({ position }) => position >= oldest)?.position ?? this.#position,
    };
    const reader = rig.attach({ place, from, mayBeOvertaken });
    const next = Math.max(oldest, begins[from]);
    assert.equal(reader.position, next, `where a reader from ${from} begins`);
    this.#readers[place] = {
      reader,
      mayBeOvertaken: mayBeOvertaken || rig.facts.whenFull === "drop-oldest",
      next,
      sequence: undefined,
      received: 0,
      missed: 0,
      gap: 0,
      held: [],
      stream: [],
      asleepRung: undefined,
      isMad: false,
    };
    this.#count(`attached from ${from}`);
  }

  #take(place: number, reader: Reader): boolean {
    const claims = reader.stream.filter(({ held }) => held.claimed).length;
    const holding = reader.held.filter(({ claimed, released, byStream }) => claimed && (!released || byStream)).length;
    if (reader.mayBeOvertaken && claims + holding >= CLAIMS && reader.next < this.#position) {
      assert.throws(
        () => reader.reader.tryTake(),
        (error) => hasCode(error, "LIMIT_EXCEEDED"),
      );
      this.#count("holds too many");
      return false;
    }
    const from = reader.mayBeOvertaken ? Math.max(reader.next, this.#oldest()) : reader.next;
    const ahead = this.#messages.filter(({ position }) => position >= from);
    const wanted = ahead.find(({ lost }) => !lost);
    for (const { sequence, lost } of wanted === undefined ? ahead : ahead.slice(0, ahead.indexOf(wanted) + 1)) {
      const missed = sequence - (reader.sequence ?? sequence) + (lost ? 1 : 0);
      reader.sequence = sequence + 1;
      reader.missed += missed;
      reader.gap += missed;
    }
    const taken = reader.reader.tryTake();
    assert.equal(taken?.sequence, wanted?.sequence, `the message that the reader at ${place} takes`);
    if (taken === undefined || wanted === undefined) {
      reader.next = Math.max(from, this.#position);
      return false;
    }
    this.rig.assertIntact(taken, "taken:");
    assert.equal(taken.position, wanted.position, "its position");
    assert.equal(taken.missed, reader.gap, "missed before it");
    reader.gap = 0;
    reader.next = wanted.position + 1;
    reader.received += 1;
    reader.held.push({ taken, claimed: reader.mayBeOvertaken, byStream: false, released: false });
    this.#count(taken.missed > 0 ? "taken after some were missed" : "taken");
    return true;
  }

  #release(place: number, reader: Reader, held: Held, byStream: boolean): void {
    if (held.released) return;
    held.released = true;
    held.byStream = byStream;
    const values: number[] = [];
    reader.reader.release(held.taken, byStream ? { signal: (value) => values.push(value) } : undefined);
    for (let first = reader.held[0]; first?.released; first = reader.held[0]) {
      reader.held.shift();
      if (!first.byStream) continue;
      const value = first.taken.position + 1;
      if (first === held) assert.deepEqual(values, [value], "what the stream is told");
      reader.stream.push({ value, held: first });
      this.#count("given back by a stream");
    }
    assert.equal(this.rig.pages[place]?.released, reader.held[0]?.taken.position ?? reader.next, "released");
    if (this.#roomRungAtSleep === undefined) return;
    assert.ok(this.rig.roomRung > this.#roomRungAtSleep, "the writer that sleeps is rung for");
    this.#count("rung for the writer");
  }

  #finishStream(reader: Reader, must = false): void {
    const first = reader.stream.shift();
    if (must) assert.ok(first, "a stream that is waited for has work");
    if (first === undefined) return;
    const place = this.#readers.indexOf(reader);
    this.rig.pages[place]?.setDone(first.value);
  }

  #finishStreams(reader: Reader): void {
    while (reader.stream.length > 0) this.#finishStream(reader);
  }

  #leave(place: number, reader: Reader, how: "detach" | "die"): void {
    // The GPU work of a reader ends before its place does.
    this.#finishStreams(reader);
    if (how === "detach") reader.reader.detach();
    else this.#count("a reader dies");
    this.rig.endPlace(place);
    this.#readers[place] = undefined;
  }

  #dieTaking(place: number, reader: Reader, at: number): void {
    this.#finishStreams(reader);
    const hasDied = dieAt(at, () => {
      const taken = reader.reader.mayHoldMore ? reader.reader.tryTake() : undefined;
      if (taken !== undefined) reader.reader.release(taken);
      reader.reader.detach();
    });
    if (hasDied) this.#count("a reader dies in the middle");
    this.rig.endPlace(place);
    this.#readers[place] = undefined;
  }

  #sleep(place: number, reader: Reader): void {
    if (reader.asleepRung !== undefined) return;
    reader.reader.fallAsleep();
    reader.asleepRung = this.rig.rung[place] as number;
    if (reader.next < this.#position) this.#wake(reader);
  }

  #wake(reader: Reader): void {
    if (reader.asleepRung === undefined) return;
    reader.reader.wakeUp();
    reader.asleepRung = undefined;
  }

  #sleepWriter(): void {
    if (this.#roomRungAtSleep !== undefined) return;
    this.rig.writer.fallAsleep();
    this.#roomRungAtSleep = this.rig.roomRung;
  }

  #wakeWriter(): void {
    if (this.#roomRungAtSleep === undefined) return;
    this.rig.writer.wakeUp();
    this.#roomRungAtSleep = undefined;
  }

  #writerDies(at: number, unfinished: number): void {
    const { rig } = this;
    if (this.#position > POSITIONS_MAX) return;
    for (const reader of this.#sane()) this.#finishStreams(reader);
    const { position } = this.#room();
    const before = rig.control.published;
    const epoch = rig.control.epoch;
    let committing: number | undefined;
    const hasDied = dieAt(at, () => {
      if (!rig.writer.reserve()) return;
      committing = rig.writer.position;
      rig.fill();
      rig.writer.commit(message(committing, epoch));
    });
    const { published } = rig.control;
    if (committing !== undefined && published === committing + 1) {
      assert.equal(committing, position, "where the dying wrote");
      this.#position = committing;
      this.#committed();
    } else {
      assert.ok(published >= before && published <= (position ?? published), "what the dying passed over");
      this.#position = published;
    }
    if (hasDied) this.#count("a writer dies in the middle");
    rig.endWriter();
    // The hub rings for all.
    for (const reader of this.#sane()) this.#wake(reader);
    assert.equal(rig.control.state, "awaited");
    // Of what the writer's streams had to do, the last were not done.
    const reached = Math.max(0, this.#position - unfinished);
    for (const message of this.#messages) {
      const isThere = rig.control.generation(message.position % rig.facts.slots) === message.position + 1;
      if (isThere && message.position >= this.#position - unfinished && isOf(rig, message, epoch)) message.lost = true;
    }
    this.#roomRungAtSleep = undefined;
    const writer = rig.succeed(reached);
    assert.equal(writer.sequence, this.#sequence, "a successor goes on with the sequence");
    assert.equal(writer.position, this.#position, "a successor goes on where the other was");
    assert.equal(rig.control.epoch, (epoch + 1) % 2 ** 32, "the epoch");
    this.#count("a writer follows another");
  }

  #goMad(place: number, reader: Reader, word: keyof typeof page, value: bigint): void {
    // Nobody reads the claims of a reader that is waited for.
    if (word === "claims" && !reader.mayBeOvertaken) return;
    this.#finishStreams(reader);
    this.rig.scribble(place, word, value);
    reader.isMad = true;
    this.#count("nonsense");
    // WHY at once: what the writer makes of it before it looks again is no promise.
    while (this.#position <= POSITIONS_MAX && this.rig.control.expelled(place) !== this.rig.leases[place]) {
      const position = this.#position;
      const rung = this.rig.rung[place] as number;
      if (this.rig.writer.reserve()) this.rig.writer.passOver();
      this.#position = this.rig.writer.position;
      if (this.rig.control.expelled(place) === this.rig.leases[place]) {
        assert.notEqual(this.rig.rung[place], rung, "who is turned away is rung for");
        this.#count("expelled");
      } else assert.notEqual(this.#position, position, "the writer goes on until it looks");
    }
  }

  #takeMad(place: number, { reader }: Reader): void {
    if (this.rig.control.expelled(place) !== this.rig.leases[place]) return;
    assert.throws(
      () => reader.checkExpelled(),
      (error) => hasCode(error, "READER_EXPELLED"),
    );
  }
}

function message(position: number, epoch: number) {
  return { timestampMs: 1, byteLength: 8, readyAt: position + 1, epoch, flags: 0, metaBytes: 0 };
}

function isOf(rig: RingRig, { position }: Message, epoch: number): boolean {
  const header = rig.control.header(position % rig.facts.slots);
  return header.epoch === epoch && (header.flags & flags.lost) === 0;
}
