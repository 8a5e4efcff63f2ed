/**
 * A thread that writes to a ring or reads from it, and pauses at some accesses to the shared words.
 * It reports the result.
 */
import assert from "node:assert/strict";
import { parentPort, workerData } from "node:worker_threads";
import type { ChannelFacts } from "../../../../src/ring/channel-layout.js";
import { Random } from "../../../support/random.js";
import { type RingMemory, RingRig } from "../../../support/ring/ring-rig.js";
import { Watched } from "../../../support/ring/ring-watch.js";
import { eachAccess } from "../../../support/ring/shared-accesses.js";

export interface ThreadPart {
  readonly memory: RingMemory;
  readonly facts: ChannelFacts;
  readonly seed: number;
  /** Messages written in all. */
  readonly messages: number;
  /** The reader's seat; undefined for the writer. */
  readonly seat: number | undefined;
  readonly lossy: boolean;
  /** For each position, the sequence number of the next message plus one. */
  readonly history: SharedArrayBuffer;
}

const { memory, facts, seed, messages, seat, lossy, history } = workerData as ThreadPart;
const random = new Random(seed);
const outcomes = new Set<string>();
const idle = new Int32Array(new SharedArrayBuffer(4));

/** Lets other threads run, because there may be fewer processors. */
function rest(): void {
  Atomics.wait(idle, 0, 0, 0.02);
}

function pause(): void {
  if (!random.chance(0.02)) return;
  if (random.chance(0.02)) rest();
  else for (let turns = random.below(300); turns > 0; turns -= 1) Atomics.isLockFree(4);
}

function write(rig: RingRig): void {
  for (let written = 0; written < messages; ) {
    if (random.chance(0.02) && rig.writer.reserve()) {
      rig.data.fill(-1, rig.writer.slot * 8, (rig.writer.slot + 1) * 8);
      rig.writer.passOver();
      outcomes.add("passed over");
    }
    const sequence = rig.put();
    if (sequence === undefined) {
      outcomes.add("no room");
      rest();
    } else {
      assert.equal(sequence, written);
      written += 1;
      outcomes.add("written");
    }
  }
  rig.control.setState("closed");
}

function read(rig: RingRig, seat: number): void {
  for (let isOver = false; !isOver; ) {
    const from = random.pick(["latest", "oldest", "next"] as const);
    const watched = new Watched(rig, rig.attach({ seat, from, lossy }));
    outcomes.add("attached");
    isOver = readFor(
      watched,
      rig,
      random.chance(0.2) ? Number.POSITIVE_INFINITY : random.below(200),
    );
    watched.assertIntact();
    if (!isOver || random.chance(0.5)) watched.detach();
    rig.endSeat(seat);
  }
}

/** @returns whether the channel has ended and everything was taken */
function readFor(watched: Watched, rig: RingRig, turns: number): boolean {
  const { reader } = watched;
  for (let turn = 0; turn < turns; turn += 1) {
    // WHY first: messages written before the end are visible after it.
    const isClosed = rig.control.state === "closed";
    const taken = reader.mayHoldMore ? watched.take() : undefined;
    if (taken !== undefined) {
      const isFirst = watched.sequences.length === 1;
      const others = isFirst ? "took its first, and missed others" : "took one, and missed others";
      outcomes.add(taken.missed > 0 ? others : "took the next");
    } else if (reader.mayHoldMore) {
      outcomes.add("nothing there");
      if (isClosed) {
        const last = watched.sequences.at(-1);
        if (!reader.lossy && last !== undefined)
          assert.equal(last, messages - 1, "the last message");
        return true;
      }
      if (watched.held.length === 0) rest();
    }
    while (watched.held.length > 0 && (taken === undefined || random.chance(0.6))) {
      watched.release(random.below(watched.held.length));
    }
  }
  return false;
}

const next = new Uint32Array(history);
const rig = new RingRig(facts, memory);
rig.history = {
  get: (position) => (next[position] ? next[position] - 1 : undefined),
  set: (position, sequence) => {
    assert.ok(position < next.length, "there is room for the history");
    next[position] = sequence + 1;
  },
};
eachAccess(pause, () => (seat === undefined ? write(rig) : read(rig, seat)));
parentPort?.postMessage([...outcomes]);
