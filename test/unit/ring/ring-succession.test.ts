import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { control, flags } from "../../../src/ring/channel-layout.js";
import { succeed } from "../../../src/ring/ring-succession.js";
import { RingRig } from "../../support/ring/ring-rig.js";
import { dieAt } from "../../support/ring/shared-accesses.js";

const corrupt = (error: unknown) => hasCode(error, "CHANNEL_CORRUPT");

describe("a writer that follows another", () => {
  it("is refused with IN_USE unless it is awaited", () => {
    for (const state of ["open", "closed", "gone", "none"] as const) {
      const rig = new RingRig();
      rig.control.setState(state);
      assert.throws(
        () => rig.succeed(),
        (error) => hasCode(error, "IN_USE") && String(error).includes(`it is ${state}`),
      );
    }
  });

  it("refuses invalid words", () => {
    const wrongs: ((rig: RingRig) => void)[] = [
      (rig) => rig.control.publish(9),
      (rig) => rig.control.publish(2 ** 60),
      (rig) => rig.control.setLimit(11),
      (rig) => rig.control.setLimit(17),
      (rig) => rig.control.setLimit(2 ** 60),
      (rig) => rig.control.setSequence(3),
    ];
    for (const [index, wrong] of wrongs.entries()) {
      const rig = new RingRig({ firstPosition: 10 });
      rig.puts(2);
      rig.endWriter();
      wrong(rig);
      assert.throws(() => rig.succeed(), corrupt, `wrong ${index}`);
    }
  });

  it("refuses a position below all others, which has no slot", () => {
    const rig = new RingRig({ slots: 100 });
    rig.endWriter();
    new BigInt64Array(rig.memory.control)[control.published / 8] = -99n;
    assert.throws(() => rig.succeed(), corrupt);
  });

  for (const slots of [1, 2, 5]) {
    for (const before of [0, 1, slots, slots + 1]) {
      it(`goes on without a gap wherever the last writer died: ${slots} slots, ${before} messages before`, () => {
        // The next writer also dies, at each access of its own start.
        for (
          let at = 0, again = 0, hasDied = true;
          hasDied || again > 0;
          again = (again + 1) % 12, at += again ? 0 : 1
        ) {
          const rig = new RingRig({ slots, firstPosition: 3 });
          const reader = rig.attach();
          for (let count = 0; count < before; count += 1) {
            rig.puts(1);
            rig.drain(reader);
          }
          hasDied = dieAt(at, () => rig.put());
          rig.endWriter();
          const committed = rig.drain(reader);
          const { position } = reader;
          const sequence = position - 3;
          assert.ok(position === rig.control.published || position === rig.control.published + 1);
          assert.deepEqual(committed, committed.length === 0 ? [] : [sequence - 1]);
          dieAt(again, () => succeed("ring", rig.control, { reached: 0 }));
          const writer = rig.succeed();
          assert.deepEqual([writer.position, writer.sequence], [position, sequence], `step ${at}`);
          assert.equal(rig.put() ?? sequence, sequence);
          if (rig.control.published === position) {
            rig.drain(reader);
            assert.equal(rig.put(), sequence);
          }
          const rest = rig.drain(reader);
          assert.equal(rest.at(-1), sequence);
          assert.equal(reader.missed, 0);
        }
      });
    }
  }

  it("marks as lost exactly what the last writer's GPU had not finished", () => {
    const rig = new RingRig({ slots: 3, whenFull: "drop-oldest" });
    const holder = rig.attach();
    // A message of an earlier writer, which has another timeline.
    rig.put({ readyAt: 1 });
    const held = holder.tryTake();
    assert.ok(held);
    rig.control.setEpoch(1);
    rig.put({ readyAt: 2, epoch: 1 });
    const second = holder.tryTake();
    for (const readyAt of [4, 6, 7]) rig.put({ readyAt, epoch: 1 });
    rig.endWriter();
    rig.succeed(0);
    const lost = [0, 1, 2].map((slot) => (rig.control.flags(slot) & flags.lost) !== 0);
    assert.ok(second);
    assert.equal(rig.control.flags(held.slot) & flags.lost, 0);
    assert.equal(
      rig.control.flags(second.slot) & flags.lost,
      flags.lost,
      "held while the ring went round",
    );
    assert.equal(lost.filter(Boolean).length, 2);
    assert.equal(rig.control.epoch, 2);
  });
});
