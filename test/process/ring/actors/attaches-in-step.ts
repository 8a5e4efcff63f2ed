/**
 * A thread that attaches to a ring repeatedly, and makes each access to shared words only when it
 * is allowed to.
 */
import { workerData } from "node:worker_threads";
import { RingRig } from "../../../support/ring/ring-rig.js";
import { eachAccess } from "../../../support/ring/shared-accesses.js";
import { type InStep, STEP } from "./in-step-words.js";

const { facts, memory, steps } = workerData as InStep;
const words = new Int32Array(steps);
const { load, store, wait, notify } = Atomics;

function set(index: number, value: number): void {
  store(words, index, value);
  notify(words, index);
}

for (let round = 1; ; round += 1) {
  for (let seen = load(words, STEP.round); seen < round; seen = load(words, STEP.round)) {
    if (seen < 0) process.exit(0);
    wait(words, STEP.round, seen);
  }
  const rig = new RingRig(facts, memory);
  rig.leases[0] = rig.pages[0]?.lease ?? 0;
  eachAccess(
    (count) => {
      set(STEP.made, count);
      for (
        let allowed = load(words, STEP.allowed);
        allowed <= count;
        allowed = load(words, STEP.allowed)
      ) {
        wait(words, STEP.allowed, allowed);
      }
    },
    () => rig.reader({ seat: 0, from: "oldest" }),
  );
  set(STEP.done, round * 2 + Math.min(rig.roomRung, 1));
}
