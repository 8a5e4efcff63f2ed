/** The order of writes for several users, with processes that answer when the test says so. */
import assert from "node:assert/strict";
import { beforeEach, describe, it, type TestContext } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import type { WordOrder } from "../../../../src/hub/words/file-words.js";
import { WordWriters, type WritersPorts } from "../../../../src/hub/words/word-writers.js";
import type { WordWriter, WriterEvents } from "../../../../src/hub/words/writer-process.js";
import type { OwnedFd } from "../../../../src/os/owned-fd.js";

const [ALICE, BOB] = [1, 2];
const PATIENCE_MS = 20;
const SILENCE_MS = 1_000;

class FakeWriter implements WordWriter {
  ready = true;
  isStopped = false;
  readonly events: WriterEvents;
  /** What it was given and has not answered. */
  readonly has: string[] = [];
  ended: "killed" | "closed" | undefined;

  constructor(events: WriterEvents) {
    this.events = events;
  }

  give(file: OwnedFd, order: WordOrder): void {
    this.has.push(said(file, order));
  }

  kill(): void {
    this.ended = "killed";
  }

  close(): void {
    this.ended ??= "closed";
  }

  answer(count = this.has.length, failure?: CudaIpcError): void {
    for (let index = 0; index < count; index += 1) {
      this.has.shift();
      this.events.onAnswer(failure);
    }
  }
}

/** Orders are told apart by the lease of a seat. */
function said(file: OwnedFd, order: WordOrder): string {
  return `${file.number}:${order.op === "beginSeat" ? order.lease : order.op}`;
}

const file = (number: number) => ({ number }) as OwnedFd;
const seat = (lease: number): WordOrder => ({ op: "beginSeat", lease });

describe("WordWriters", () => {
  let writers: FakeWriter[];
  let direct: string[];
  let logged: string[];
  let startFailure: Error | undefined;
  let words: WordWriters;

  beforeEach(() => {
    [writers, direct, logged, startFailure] = [[], [], [], undefined];
    const ports: WritersPorts = {
      start: (events) => {
        if (startFailure !== undefined) throw startFailure;
        const writer = new FakeWriter(events);
        writers.push(writer);
        return writer;
      },
      write: (file, order) => {
        direct.push(said(file, order));
        return undefined;
      },
      log: (event) => logged.push(event),
    };
    // The clock stands still.
    words = new WordWriters(ports, () => 1);
  });

  const has = () => writers.map((writer) => writer.has);
  const withTimers = (t: TestContext) => t.mock.timers.enable({ apis: ["setTimeout"] });

  it("starts a process at the first order, and uses it again", () => {
    assert.equal(writers.length, 0);
    words.give(ALICE, file(7), seat(1));
    assert.deepEqual(has(), [["7:1"]]);
    writers[0]?.answer();
    words.give(BOB, file(8), seat(2));
    assert.deepEqual(has(), [["8:2"]]);
  });

  it("gives other users another process if one does not answer, and the user only this one", (t) => {
    withTimers(t);
    words.give(ALICE, file(7), seat(1));
    words.give(BOB, file(8), seat(2));
    words.give(ALICE, file(9), seat(3));
    assert.deepEqual(has(), [["7:1"]]);
    t.mock.timers.tick(PATIENCE_MS);
    assert.deepEqual(has(), [["7:1"], ["8:2"]]);
    writers[1]?.answer();
    // Still in order: the first process has not answered.
    assert.deepEqual(has(), [["7:1"], []]);
    writers[0]?.answer();
    assert.deepEqual(has().flat(), ["9:3"]);
    assert.equal(words.unwrittenOf(ALICE), 1);
    words.end("drop");
  });

  it("starts no other process while one starts", (t) => {
    withTimers(t);
    words.give(ALICE, file(7), seat(1));
    const [first] = writers as [FakeWriter];
    first.ready = false;
    words.give(BOB, file(8), seat(2));
    t.mock.timers.tick(PATIENCE_MS);
    assert.equal(writers.length, 1);
    first.ready = true;
    t.mock.timers.tick(PATIENCE_MS);
    assert.equal(writers.length, 2);
    words.end("drop");
  });

  it("has a limit of processes, after which users wait for each other", (t) => {
    withTimers(t);
    for (let user = 1; user <= 12; user += 1) {
      words.give(user, file(user), seat(user));
      t.mock.timers.tick(PATIENCE_MS);
    }
    assert.equal(writers.length, 8);
    writers[5]?.answer();
    assert.deepEqual(writers[5]?.has, ["9:9"]);
    words.end("drop");
  });

  it("lets users take turns on one process", () => {
    for (let index = 0; index < 20; index += 1) words.give(ALICE, file(7), seat(index));
    words.give(BOB, file(8), seat(99));
    const [first] = writers as [FakeWriter];
    first.answer(1);
    assert.deepEqual(first.has, ["8:99"]);
    first.answer();
    assert.equal(first.has.length, 16);
    words.end("drop");
  });

  it("gives the orders of a process that died to the next one, in their order", () => {
    for (const lease of [1, 2, 3]) words.give(ALICE, file(7), seat(lease));
    const [first] = writers as [FakeWriter];
    first.answer(1);
    assert.deepEqual(first.has, ["7:2", "7:3"]);
    first.events.onGone(undefined);
    assert.deepEqual(writers[1]?.has, ["7:2", "7:3"]);
    assert.deepEqual(logged, ["words-failed"]);
    words.end("drop");
  });

  it("kills a process that is stopped, and only logs if it waits", (t) => {
    withTimers(t);
    words.give(ALICE, file(7), seat(1));
    const [first] = writers as [FakeWriter];
    t.mock.timers.tick(SILENCE_MS);
    assert.deepEqual([first.ended, logged], [undefined, ["memory-waits"]]);
    first.isStopped = true;
    t.mock.timers.tick(SILENCE_MS);
    assert.equal(first.ended, "killed");
    words.end("drop");
  });

  it("writes itself for a while if no process starts", () => {
    startFailure = new Error("no process");
    words.give(ALICE, file(7), seat(1));
    assert.deepEqual([direct, logged], [["7:1"], ["words-not-started"]]);
  });

  it("writes itself for a while if one process after the other dies", () => {
    words.give(ALICE, file(7), seat(1));
    for (const index of [0, 1, 2]) writers[index]?.events.onGone(new Error("it ended at once"));
    assert.deepEqual([writers.length, direct], [3, ["7:1"]]);
  });

  it("closes a file after the writes into it", () => {
    const closed: number[] = [];
    const [one, other] = [file(7), file(8)];
    words.give(ALICE, one, seat(1));
    words.give(ALICE, one, { op: "endSeat" });
    for (const fd of [one, other]) words.close(fd, () => closed.push(fd.number));
    assert.deepEqual(closed, [8]);
    writers[0]?.answer(1);
    assert.deepEqual(closed, [8]);
    writers[0]?.answer();
    assert.deepEqual(closed, [8, 7]);
  });

  it("calls back after the last write of the user, with its failure", () => {
    assert.equal(
      words.whenWritten(ALICE, () => {}),
      false,
    );
    const found: unknown[] = [];
    words.give(ALICE, file(7), { op: "endSeat" });
    words.give(ALICE, file(7), seat(1));
    assert.equal(
      words.whenWritten(ALICE, (failure) => found.push(failure?.code)),
      true,
    );
    writers[0]?.answer(1, new CudaIpcError("OUT_OF_MEMORY", "no page"));
    assert.deepEqual(found, []);
    writers[0]?.answer(1, new CudaIpcError("SYSTEM_ERROR", "no page"));
    assert.deepEqual(found, ["SYSTEM_ERROR"]);
  });

  it("gives everything to its processes before it ends", (t) => {
    withTimers(t);
    for (let lease = 0; lease < 20; lease += 1) words.give(ALICE, file(7), seat(lease));
    words.give(BOB, file(8), seat(99));
    const closed: number[] = [];
    words.close(file(8), () => closed.push(8));
    words.end("finish");
    const [first] = writers as [FakeWriter];
    assert.deepEqual([first.has.length, first.has.at(-1), first.ended], [21, "8:99", "closed"]);
    assert.deepEqual(closed, [8]);
  });

  it("leaves everything to the next hub if there is one", () => {
    for (let lease = 0; lease < 20; lease += 1) words.give(ALICE, file(7), seat(lease));
    words.end("drop");
    const [first] = writers as [FakeWriter];
    assert.deepEqual([first.has.length, first.ended], [1, "killed"]);
  });
});
