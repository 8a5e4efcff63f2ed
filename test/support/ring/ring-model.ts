/**
 * The model of a ring, in plain lists. It applies each command to the ring and to itself, and
 * compares. It takes only `limit` from the ring, because the writer may choose how far it looks
 * ahead.
 */
import assert from "node:assert/strict";
import { hasCode } from "../../../src/base/errors.js";
import { POSITIONS_MAX, type page, windowOf } from "../../../src/ring/channel-layout.js";
import { type ModelHeld, type ModelMessage, ReaderModel } from "./reader-model.js";
import { message, type RingCommand } from "./ring-commands.js";
import { checkExpelled, commitUntilDeath, markLost, writeUntilExpelled } from "./ring-faults.js";
import type { RingRig } from "./ring-rig.js";
import { dieAt } from "./shared-accesses.js";

const exceeded = (error: unknown) => hasCode(error, "LIMIT_EXCEEDED");

export class RingModel {
  readonly rig: RingRig;
  /** How often each case occurred, so that a run can check that it reached all of them. */
  readonly seen = new Map<string, number>();
  readonly #messages: ModelMessage[] = [];
  readonly #readers: (ReaderModel | undefined)[];
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
    if ("seat" in command) this.#applyToSeat(command);
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

  /** At the end of a run: readers get all that is left, and then the writer has room. */
  end(): void {
    for (const reader of this.#sane()) {
      reader.finishStreams();
      for (const held of [...reader.held]) this.#release(reader, held, false);
      while (this.#take(reader))
        for (const held of [...reader.held]) this.#release(reader, held, false);
      assert.equal(reader.next, this.#position, "a reader is at the end");
    }
    this.#check();
    if (this.#position <= POSITIONS_MAX)
      assert.ok(this.#put(), "there is room once all is released");
  }

  #applyToSeat(command: Extract<RingCommand, { readonly seat: number }>): void {
    const { seat } = command;
    const reader = this.#readers[seat];
    if (reader === undefined) {
      if (command.do === "attach") this.#attach(command);
      return;
    }
    if (command.do === "detach" || command.do === "die") this.#leave(seat, reader, command.do);
    else if (reader.isMad) checkExpelled(this.rig, seat, reader);
    else if (command.do === "take") this.#take(reader);
    else if (command.do === "dieTaking") this.#dieTaking(seat, reader, command.at);
    else if (command.do === "sleep") reader.sleep(this.#position);
    else if (command.do === "wake") reader.wake();
    else if (command.do === "finishStream") reader.finishNext();
    else if (command.do === "nonsense") this.#goMad(seat, reader, command.word, command.value);
    else if (command.do === "release") {
      const open = reader.held.filter((held) => !held.released);
      const held = open[command.which % open.length];
      if (held !== undefined) this.#release(reader, held, command.byStream);
    }
  }

  #count(what: string): void {
    this.seen.set(what, (this.seen.get(what) ?? 0) + 1);
  }

  #check(): void {
    const { control, facts } = this.rig;
    assert.equal(control.published, this.#position, "published");
    assert.equal(control.dropped, this.#dropped, "dropped");
    const { limit } = control;
    assert.ok(limit >= this.#limit, "the limit never decreases");
    assert.ok(limit >= this.#position && limit <= this.#position + windowOf(facts.slots));
    this.#limit = limit;
    for (const reader of this.#sane()) reader.check();
  }

  #sane(): ReaderModel[] {
    return this.#readers.filter(
      (reader): reader is ReaderModel => reader !== undefined && !reader.isMad,
    );
  }

  #oldest(): number {
    return Math.max(this.rig.facts.firstPosition, this.rig.control.limit - this.rig.facts.slots);
  }

  /** Where the next message goes; undefined if there is no room. */
  #room(): { readonly position: number | undefined; readonly passedTo: number } {
    const { slots } = this.rig.facts;
    const waitedFor = this.#sane().filter(({ lossy }) => !lossy);
    const bound = Math.min(
      ...waitedFor.map(({ needs }) => needs + slots),
      Number.POSITIVE_INFINITY,
    );
    const isHeld = (slot: number) => this.#sane().some((reader) => reader.claims(slot));
    const isFree = Array.from({ length: slots }, (_, slot) => slot).some((slot) => !isHeld(slot));
    let position = this.#position;
    for (; position < bound; position += 1) {
      if (!isHeld(position % slots)) return { position, passedTo: position };
      if (!isFree) break;
    }
    return { position: undefined, passedTo: position };
  }

  #put(): boolean {
    const { rig } = this;
    const { writer } = rig;
    if (this.#position > POSITIONS_MAX) {
      if (this.#position >= this.#limit) {
        assert.throws(() => writer.reserve(), exceeded);
        this.#count("the end of the numbers");
      }
      return false;
    }
    const { position, passedTo } = this.#room();
    if (passedTo !== this.#position) this.#count("held slots are passed over");
    assert.equal(writer.reserve(), position !== undefined, "room");
    assert.equal(writer.reserve(), position !== undefined, "room, asked again");
    assert.equal(writer.position, passedTo, "the position of the writer");
    this.#position = passedTo;
    if (position === undefined) {
      this.#count("no room");
      for (const reader of this.#sane()) reader.checkBell(passedTo);
      return false;
    }
    this.#waitForStreams(position);
    rig.fill();
    assert.equal(
      writer.commit(message(position, rig.control.epoch)),
      this.#sequence,
      "the sequence",
    );
    this.#committed();
    for (const reader of this.#sane()) reader.checkBell(this.#position);
    return true;
  }

  #committed(): void {
    this.#messages.push({ position: this.#position, sequence: this.#sequence, lost: false });
    this.#sequence += 1;
    this.#position += 1;
    this.#count("put");
  }

  /** Waits for readers' streams, as a channel does before it writes to a slot. */
  #waitForStreams(position: number): void {
    const slot = position % this.rig.facts.slots;
    const wanted = new Set(this.#sane().filter((reader) => reader.isReading(slot)));
    this.rig.writer.pendingReleases((seat, value) => {
      const reader = this.#readers[seat];
      if (reader === undefined || reader.isMad) return;
      while ((this.rig.pages[seat]?.done ?? value) < value) {
        assert.ok(reader.finishNext(), "a stream that is waited for has work");
      }
      assert.ok(!reader.isReading(slot), "a stream that was waited for has finished with the slot");
      wanted.delete(reader);
      this.#count("the writer waits for a stream");
    });
    assert.equal(wanted.size, 0, "readers whose streams are still at work on the slot");
  }

  #passOver(): void {
    if (this.#position > POSITIONS_MAX) return;
    const { position } = this.#room();
    if (!this.rig.writer.reserve()) {
      this.#position = this.rig.writer.position;
      for (const reader of this.#sane()) reader.checkBell(this.#position);
      return;
    }
    assert.equal(this.rig.writer.position, position, "the position that is passed over");
    this.#position = position as number;
    this.#waitForStreams(this.#position);
    // The data that the loan wrote before it was given up.
    this.rig.data.fill(-1, this.rig.writer.slot * 8, (this.rig.writer.slot + 1) * 8);
    this.rig.writer.passOver();
    this.#position += 1;
    this.#count("passed over");
    for (const reader of this.#sane()) reader.checkBell(this.#position);
  }

  #attach({ seat, from, lossy }: Extract<RingCommand, { readonly do: "attach" }>): void {
    const { rig } = this;
    const oldest = this.#oldest();
    const begins = {
      next: this.#position,
      oldest: this.#position - rig.facts.slots,
      latest:
        this.#messages.findLast(({ position }) => position >= oldest)?.position ?? this.#position,
    };
    const reader = rig.attach({ seat, from, lossy });
    const next = Math.max(oldest, begins[from]);
    assert.equal(reader.position, next, `where a reader from ${from} begins`);
    const seen = { messages: this.#messages, oldest, count: (what: string) => this.#count(what) };
    this.#readers[seat] = new ReaderModel(rig, seat, reader, seen);
    this.#count(`attached from ${from}`);
  }

  #take(reader: ReaderModel): boolean {
    return reader.take(this.#messages, this.#position, this.#oldest());
  }

  #release(reader: ReaderModel, held: ModelHeld, byStream: boolean): void {
    if (held.released) return;
    reader.release(held, byStream);
    if (this.#roomRungAtSleep === undefined) return;
    assert.ok(this.rig.roomRung > this.#roomRungAtSleep, "the sleeping writer is woken");
    this.#count("rung for the writer");
  }

  #leave(seat: number, reader: ReaderModel, how: "detach" | "die"): void {
    // The GPU work of a reader ends before its seat does.
    reader.finishStreams();
    if (how === "detach") reader.reader.detach();
    else this.#count("a reader dies");
    this.rig.endSeat(seat);
    this.#readers[seat] = undefined;
  }

  #dieTaking(seat: number, reader: ReaderModel, at: number): void {
    reader.finishStreams();
    const hasDied = dieAt(at, () => {
      const taken = reader.reader.mayHoldMore ? reader.reader.tryTake() : undefined;
      if (taken !== undefined) reader.reader.release(taken);
      reader.reader.detach();
    });
    if (hasDied) this.#count("a reader dies in the middle");
    this.rig.endSeat(seat);
    this.#readers[seat] = undefined;
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
    for (const reader of this.#sane()) reader.finishStreams();
    const { position } = this.#room();
    const before = rig.control.published;
    const epoch = rig.control.epoch;
    const { hasDied, committing } = commitUntilDeath(rig, at);
    const { published } = rig.control;
    const slot = published % rig.facts.slots;
    // The header is written before `published`.
    const end = Math.max(published, rig.control.generation(slot), rig.control.passedOver(slot));
    if (
      committing !== undefined &&
      rig.control.generation(committing % rig.facts.slots) === committing + 1
    ) {
      assert.equal(end, committing + 1, "nothing after what it committed");
      assert.equal(committing, position, "where the dying writer wrote");
      this.#position = committing;
      this.#committed();
    } else {
      assert.ok(end >= before && end <= (position ?? end), "what the dying writer passed over");
      this.#position = end;
    }
    if (hasDied) this.#count("a writer dies in the middle");
    rig.endWriter();
    // The hub rings all bells.
    for (const reader of this.#sane()) reader.wake();
    assert.equal(rig.control.state, "awaited");
    // The writer's streams did not do the last part of their work.
    const reached = Math.max(0, this.#position - unfinished);
    markLost(rig, this.#messages, this.#position - unfinished, epoch);
    this.#roomRungAtSleep = undefined;
    const writer = rig.succeed(reached);
    assert.equal(writer.sequence, this.#sequence, "a successor goes on with the sequence");
    assert.equal(writer.position, this.#position, "a successor goes on at its position");
    assert.equal(rig.control.epoch, (epoch + 1) % 2 ** 32, "the epoch");
    this.#count("a writer follows another");
  }

  #goMad(seat: number, reader: ReaderModel, word: keyof typeof page, value: bigint): void {
    // Nobody reads the claims of a reader that is not lossy.
    if (word === "claims" && !reader.lossy) return;
    reader.finishStreams();
    this.rig.scribble(seat, word, value);
    reader.isMad = true;
    this.#count("nonsense");
    const { position, expelled } = writeUntilExpelled(this.rig, seat, this.#position);
    this.#position = position;
    if (expelled) this.#count("expelled");
  }
}
