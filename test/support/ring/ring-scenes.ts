/**
 * Plays an operation of one side of a ring, with whole operations of the other side at each of its
 * accesses to shared words. A test lists the allowed outcomes, and each of them must occur.
 */
import assert from "node:assert/strict";
import { type WhenFull, whenFullPolicies } from "../../../src/ring/channel-layout.js";
import { RingRig } from "./ring-rig.js";
import { Watched } from "./ring-watch.js";
import { duringAccess } from "./shared-accesses.js";

export interface Scene {
  readonly rig: RingRig;
  readonly watched: Watched;
}

export interface Case {
  readonly slots: number;
  readonly whenFull: WhenFull;
  readonly lossy: boolean;
  /** The number of messages written before. */
  readonly before: number;
  /** How many of them the reader has taken and holds. */
  readonly taken: number;
}

export function* cases(): Generator<Case> {
  for (const slots of [1, 2, 3, 4, 5]) {
    for (const whenFull of whenFullPolicies) {
      // One size is enough: for the ring they are like "wait".
      if ((whenFull === "error" || whenFull === "drop-newest") && slots !== 3) continue;
      for (const lossy of whenFull === "drop-oldest" ? [true] : [false, true]) {
        for (const before of new Set([0, 1, slots - 1, slots])) {
          // Up to three slots all combinations. More slots add nothing new and take long.
          for (const taken of new Set(slots > 3 ? [before] : [0, Math.min(1, before), before])) {
            yield { slots, whenFull, lossy, before, taken };
          }
        }
      }
    }
  }
}

export function scene({ slots, whenFull, lossy, before, taken }: Case): Scene {
  // Start in the middle of a lap.
  const rig = new RingRig({ slots, whenFull, firstPosition: slots * 3 + 1 });
  rig.puts(slots + 1);
  const watched = new Watched(rig, rig.attach({ lossy }));
  rig.puts(before);
  for (let index = 0; index < taken; index += 1) watched.take();
  return { rig, watched };
}

/** Writes at most this many messages. @returns true if all found a slot */
export function puts(rig: RingRig, count: number): boolean {
  for (let index = 0; index < count; index += 1) if (rig.put() === undefined) return false;
  return true;
}

export interface Play {
  body(): void;
  other(): void;
  /** Describes what happened. */
  outcome(): string;
}

/** Plays it once per access, with the other side's operation there. Counts each outcome. */
export function playAll(make: () => Play, outcomes: Map<string, number>): void {
  for (let at = 0; ; at += 1) {
    const play = make();
    const isReached = duringAccess(at, play.other, play.body);
    // A known message is taken without an access, so `at` can be 0 here.
    if (!isReached) return;
    const outcome = play.outcome();
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1);
  }
}

export function assertOutcomes(
  outcomes: ReadonlyMap<string, number>,
  allowed: readonly string[],
): void {
  assert.deepEqual([...outcomes.keys()].sort(), [...allowed].sort());
}
