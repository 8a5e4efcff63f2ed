/**
 * A writer or reader that dies at any point of its operations, and what must hold then. It dies by
 * an error in this process, or by SIGKILL in its own.
 */
import assert from "node:assert/strict";
import { type ChannelFacts, flags, type WhenFull } from "../../../src/ring/channel-layout.js";
import { ringFacts } from "./ring-facts.js";
import { plainMessage, type RingRig } from "./ring-rig.js";
import { assertGoesOn, Watched } from "./ring-watch.js";

/** The lease of the reader that dies, at seat 0. */
export const DYING_LEASE = 7;

/** The hub's actions after a death. */
export interface HubPart {
  beginSeat(lease: number): void;
  endSeat(): void;
  endWriter(): void;
}

export interface Deed {
  readonly facts: ChannelFacts;
  readonly role: "writer" | "reader" | "lossy reader";
  /** Prepares the ring. @returns the checks after the death */
  before(rig: RingRig): (hub: HubPart) => void;
}

export function act(role: Deed["role"], rig: RingRig): void {
  if (role === "writer") write(rig);
  else read(rig, role === "lossy reader");
}

/** The operations of a writer. It dies at some point of them. */
function write(rig: RingRig): void {
  const { writer } = rig;
  rig.put();
  rig.put({ flags: flags.shaped });
  if (writer.reserve()) {
    rig.fill();
    rig.control.setShape(writer.slot, [1, 2]);
    writer.commit({ ...plainMessage, flags: flags.shaped });
  }
  writer.fallAsleep();
  writer.wakeUp();
  if (writer.reserve()) {
    rig.data.fill(-1, writer.slot * 8, (writer.slot + 1) * 8);
    writer.passOver();
  }
  writer.drop();
  for (let count = 0; count < rig.facts.slots; count += 1) rig.put();
}

/** The operations of a reader, at a prepared seat. */
function read(rig: RingRig, lossy: boolean): void {
  rig.leases[0] = DYING_LEASE;
  const reader = rig.reader({ seat: 0, from: "oldest", lossy });
  const first = reader.tryTake();
  const second = reader.tryTake();
  if (second !== undefined) reader.release(second);
  if (first !== undefined) reader.release(first);
  const third = reader.tryTake();
  reader.fallAsleep();
  if (third !== undefined) reader.release(third, (value) => rig.pages[0]?.setDone(value));
  reader.wakeUp();
  reader.tryTake();
  reader.detach();
}

/**
 * After the death of a writer exactly the committed messages are there, and the next writer goes on
 * without a gap.
 */
export function writerDeed(whenFull: WhenFull): Deed {
  return {
    facts: ringFacts({ slots: 3, whenFull, firstPosition: 5 }),
    role: "writer",
    before: (rig) => {
      rig.puts(4);
      const waiting = new Watched(rig, rig.attach({ seat: 1 }));
      const holding = new Watched(rig, rig.attach({ seat: 2, from: "oldest", lossy: true }));
      holding.take();
      return (hub) => {
        hub.endWriter();
        assert.equal(rig.control.state, "awaited");
        holding.assertIntact();
        const last = waiting.drain() ?? 3;
        const writer = rig.succeed();
        assert.equal(waiting.reader.position, writer.position, "all that was committed");
        // WHY: a message that was never committed may have overwritten the last ones.
        const committed = whenFull === "drop-oldest" ? Math.max(last, writer.sequence - 1) : last;
        if (whenFull !== "drop-oldest") {
          assert.deepEqual(
            waiting.sequences,
            Array.from({ length: last - 3 }, (_, index) => 4 + index),
          );
        }
        assert.equal(writer.sequence, committed + 1, "without a gap");
        assert.equal(rig.put(), committed + 1);
        assert.equal(waiting.drain(), committed + 1);
        assertGoesOn(rig, [waiting, holding]);
      };
    },
  };
}

/** After the death of a reader its seat and its slots are free again. */
export function readerDeed(role: "reader" | "lossy reader"): Deed {
  return {
    facts: ringFacts({ slots: 3, firstPosition: 5 }),
    role,
    before: (rig) => {
      rig.puts(5);
      const other = new Watched(rig, rig.attach({ seat: 1, from: "oldest" }));
      return (hub) => {
        // Until the hub ends the seat, the reader's slots stay taken, dead or alive.
        other.drain();
        for (let count = 0; count < 4; count += 1) if (rig.put() !== undefined) other.drain();
        hub.endSeat();
        assertGoesOn(rig, [other]);
        assert.equal(rig.control.expelled(0), 0, "its words made sense throughout");
        hub.beginSeat(DYING_LEASE + 1);
        rig.leases[0] = DYING_LEASE + 1;
        const next = new Watched(rig, rig.reader({ seat: 0 }));
        rig.rung.fill(0);
        next.reader.fallAsleep();
        assert.notEqual(rig.put(), undefined);
        assert.equal(rig.rung[0], 1, "the next reader at its seat is woken");
        next.reader.wakeUp();
        assertGoesOn(rig, [next, other]);
      };
    },
  };
}
