/** Words that keep a test and a thread in step. */
import type { ChannelFacts } from "../../../../src/ring/channel-layout.js";
import type { RingMemory } from "../../../support/ring/ring-rig.js";

/**
 * `allowed`: accesses that the thread may make; `made`: accesses it has made; `done`: twice the
 * round, plus one if it rang.
 */
export const STEP = { allowed: 0, made: 1, round: 2, done: 3 } as const;

export interface InStep {
  readonly facts: ChannelFacts;
  readonly memory: RingMemory;
  readonly steps: SharedArrayBuffer;
}
