/**
 * A writer and readers of a ring at the same time, each in a thread. The test lists the allowed
 * outcomes. Wrong bytes or a wrong order end the thread with an error.
 */
import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { Worker } from "node:worker_threads";
import { whenFullPolicies } from "../../../src/ring/channel-layout.js";
import { nightly, Random, seedOfRun } from "../../support/random.js";
import { ringFacts } from "../../support/ring/ring-facts.js";
import { RingRig, ringMemory } from "../../support/ring/ring-rig.js";
import type { ThreadPart } from "./actors/ring-thread.js";

const THREAD = new URL("./actors/ring-thread.js", import.meta.url);
const MESSAGES = nightly ? 100_000 : 4_000;

const WRITER = ["no room", "passed over", "written"];
const WAITED_FOR = ["attached", "nothing there", "took the next"];
const OVERTAKEN = [
  ...WAITED_FOR,
  "took one, and missed others",
  "took its first, and missed others",
];
/** Positions per message, because the writer skips many. */
const POSITIONS = 64;

/** @returns its outcome */
async function run(part: ThreadPart): Promise<string[]> {
  const worker = new Worker(THREAD, { workerData: part });
  const ended = once(worker, "exit");
  const [outcomes] = await once(worker, "message");
  await ended;
  return outcomes as string[];
}

describe("a ring shared by threads", () => {
  const seed = seedOfRun();
  const random = new Random(seed);
  for (const whenFull of whenFullPolicies) {
    for (const slots of [1, 3, 8]) {
      const seats = slots === 3 ? [0, 1, 2] : slots === 1 ? [0] : [0, 1];
      it(`${whenFull}, ${slots} slots, ${seats.length} readers (seed ${seed})`, async () => {
        const facts = ringFacts({ slots, whenFull, readersMax: 3 });
        const memory = ringMemory(facts);
        new RingRig(facts, memory, "new");
        const shared = {
          facts,
          memory,
          messages: MESSAGES,
          history: new SharedArrayBuffer(MESSAGES * POSITIONS * 4),
        };
        const parts: ThreadPart[] = [undefined, ...seats].map((seat) => ({
          ...shared,
          seat,
          seed: random.below(2 ** 32),
          lossy: seat === 1,
        }));
        const [written = [], ...read] = await Promise.all(parts.map(run));
        for (const outcome of written) assert.ok(WRITER.includes(outcome), outcome);
        for (const [seat, outcomes] of read.entries()) {
          const allowed = whenFull === "drop-oldest" || seat === 1 ? OVERTAKEN : WAITED_FOR;
          for (const outcome of outcomes)
            assert.ok(allowed.includes(outcome), `reader ${seat}: ${outcome}`);
        }
      });
    }
  }
});
