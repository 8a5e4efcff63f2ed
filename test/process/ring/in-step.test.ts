/**
 * A reader attaches in a thread, in step with a writer that writes and falls asleep. The reader
 * makes some accesses, the writer some of its own, the reader some more, and then both finish. The
 * test plays all such orders.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { Worker } from "node:worker_threads";
import { ringFacts } from "../../support/ring/ring-facts.js";
import { RingRig, ringMemory } from "../../support/ring/ring-rig.js";
import { duringAccess } from "../../support/ring/shared-accesses.js";
import { type InStep, STEP } from "./actors/in-step-words.js";

const ATTACHES = new URL("./actors/attaches-in-step.js", import.meta.url);
const facts = ringFacts({ slots: 1, readersMax: 1 });
const TO_THE_END = 1000;

class Stepped {
  readonly memory = ringMemory(facts);
  readonly #words = new Int32Array(new SharedArrayBuffer(16));
  readonly #worker: Worker;
  #round = 0;

  constructor() {
    const part: InStep = {
      facts,
      memory: this.memory,
      steps: this.#words.buffer as SharedArrayBuffer,
    };
    this.#worker = new Worker(ATTACHES, { workerData: part });
  }

  /** A new ring, and a reader before its first access. */
  begin(): RingRig {
    for (const buffer of [this.memory.control, ...this.memory.pages, this.memory.data])
      new Uint8Array(buffer).fill(0);
    const rig = new RingRig(facts, this.memory, "new");
    rig.beginSeat(0);
    this.#round += 1;
    Atomics.store(this.#words, STEP.allowed, 0);
    Atomics.store(this.#words, STEP.made, -1);
    this.#set(STEP.round, this.#round);
    return rig;
  }

  /**
   * Lets the reader make its accesses before this one. @returns false if it has made all and is
   * done
   */
  go(to: number): boolean {
    this.#set(STEP.allowed, to);
    for (;;) {
      if (Atomics.load(this.#words, STEP.done) >> 1 === this.#round) return false;
      if (Atomics.load(this.#words, STEP.made) === to) return true;
      Atomics.wait(this.#words, STEP.made, Atomics.load(this.#words, STEP.made), 0.05);
    }
  }

  /** The reader rang for the writer. */
  get hasRung(): boolean {
    return (Atomics.load(this.#words, STEP.done) & 1) === 1;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#set(STEP.round, -1);
    await once(this.#worker, "exit");
  }

  #set(index: number, value: number): void {
    Atomics.store(this.#words, index, value);
    Atomics.notify(this.#words, index);
  }
}

describe("a reader that attaches while the writer falls asleep", () => {
  it("rings if the writer saw it further behind than it is", async () => {
    await using stepped = new Stepped();
    let asleep = 0;
    let rung = 0;
    for (let first = 0, isBefore = true; isBefore; first += 1) {
      for (let second = first + 1, isMore = true; isMore && isBefore; second += 1) {
        for (let at = 0, isReached = true; isReached; at += 1) {
          const rig = stepped.begin();
          isBefore = stepped.go(first);
          let isAsleep = false;
          isReached = duringAccess(
            at,
            () => {
              isMore = stepped.go(second);
            },
            () => {
              while (rig.writer.position < 3 && rig.put() !== undefined);
              if (rig.writer.position === 3) return;
              rig.writer.fallAsleep();
              isAsleep = !rig.writer.reserve();
            },
          );
          stepped.go(TO_THE_END);
          if (!isAsleep) continue;
          asleep += 1;
          if (stepped.hasRung) rung += 1;
          else if (rig.pages[0]?.released === rig.control.published) {
            assert.equal(rig.writer.reserve(), false, `nobody rings: ${first}, ${at}, ${second}`);
          }
        }
      }
    }
    assert.ok(
      asleep > 0 && rung > 0,
      `it slept ${asleep} times, and ${rung} times it was rung for`,
    );
  });
});
