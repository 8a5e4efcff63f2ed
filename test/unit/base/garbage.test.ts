import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { GarbageRhythm, garbageWasFound, StallWatch } from "../../../src/base/garbage.js";
import { until } from "../../support/until.js";

/** Says whether it was collected. */
function dropped(): () => boolean {
  const weak = new WeakRef({});
  return () => weak.deref() === undefined;
}

/** A thread whose time passes only when a test says so. */
class Thread {
  heapBytes = 0;
  /** When garbage was collected. */
  readonly collections: number[] = [];
  readonly rhythm: GarbageRhythm;
  #nowMs = 0;
  #timers: { atMs: number; call: () => void }[] = [];

  constructor() {
    this.rhythm = new GarbageRhythm({
      nowMs: () => this.#nowMs,
      heapBytes: () => this.heapBytes,
      collect: () => void this.collections.push(this.#nowMs),
      later: (call, delayMs) => {
        const timer = { atMs: this.#nowMs + delayMs, call };
        this.#timers.push(timer);
        return () => this.#cancel(timer);
      },
    });
  }

  get timers(): number {
    return this.#timers.length;
  }

  passTo(endMs: number): void {
    for (;;) {
      const [next] = this.#timers.sort((one, other) => one.atMs - other.atMs);
      if (next === undefined || next.atMs > endMs) break;
      this.#cancel(next);
      this.#nowMs = next.atMs;
      next.call();
    }
    this.#nowMs = endMs;
  }

  #cancel(timer: object): void {
    this.#timers = this.#timers.filter((one) => one !== timer);
  }
}

describe("collections of garbage while a wait stalls", () => {
  const DOUBLING = [100, 200, 400, 800, 1600, 3200, 6400, 12_800, 22_800, 32_800];

  it("come after 0.1 s, then ever more rarely down to one in 10 s", () => {
    const thread = new Thread();
    new StallWatch(() => 0, thread.rhythm).begin();
    thread.passTo(40_000);
    assert.deepEqual(thread.collections, DOUBLING);
  });

  it("are as many for all waits of a thread together", () => {
    const thread = new Thread();
    for (let wait = 0; wait < 5; wait += 1) new StallWatch(() => wait, thread.rhythm).begin();
    thread.passTo(40_000);
    assert.deepEqual(thread.collections, DOUBLING);
  });

  it("come often again once one of them has found something", () => {
    const thread = new Thread();
    new StallWatch(() => 0, thread.rhythm).begin();
    thread.passTo(30_000);
    thread.rhythm.found();
    thread.passTo(40_000);
    // The look at 32.8 s was planned before.
    assert.deepEqual(
      thread.collections.slice(9),
      [32_800, 32_900, 33_100, 33_500, 34_300, 35_900, 39_100],
    );
  });

  for (const [mib, stallMs] of [
    [1, 100],
    [20, 100],
    [100, 500],
    [1000, 5000],
    [4000, 10_000],
  ] as const)
    it(`wait for a stall of ${stallMs} ms if the heap has ${mib} MiB`, () => {
      const thread = new Thread();
      thread.heapBytes = mib * 2 ** 20;
      new StallWatch(() => 0, thread.rhythm).begin();
      thread.passTo(stallMs - 1);
      assert.deepEqual(thread.collections, []);
      thread.passTo(stallMs);
      assert.deepEqual(thread.collections, [stallMs]);
    });

  it("do not come while there is progress, nor after the wait or a close", () => {
    const thread = new Thread();
    let progress: number | undefined = 0;
    const watch = new StallWatch(() => progress, thread.rhythm);
    watch.begin();
    for (let endMs = 50; endMs < 2000; endMs += 50) {
      progress += 1;
      thread.passTo(endMs);
    }
    assert.deepEqual(thread.collections, []);
    progress = undefined;
    thread.passTo(3000);
    assert.equal(thread.timers, 0);
    progress = 1;
    watch.begin();
    watch.begin();
    assert.equal(thread.timers, 1);
    watch.close();
    thread.passTo(9000);
    assert.deepEqual([thread.collections, thread.timers], [[], 0]);
  });
});

describe("StallWatch", () => {
  it("collects while a wait stalls", async () => {
    let isStalled = false;
    let looks = 0;
    const watch = new StallWatch(() => {
      looks += 1;
      return isStalled ? 0 : looks;
    });
    garbageWasFound();
    const weak = dropped();
    watch.begin();
    await until("it has looked", () => looks > 2);
    isStalled = true;
    await until("it has collected", weak);
    watch.close();
  });
});
