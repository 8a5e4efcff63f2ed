/** How a writer treats readers whose pages are invalid. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { RingRig } from "../../support/ring/ring-rig.js";
import { duringAccess } from "../../support/ring/shared-accesses.js";

describe("readers with invalid words", () => {
  const nonsense = [
    ["released", -1n],
    ["released", 100n],
    ["released", 2n ** 63n - 1n],
    ["gpuReleased", 100n],
    ["state", 9n],
  ] as const;
  for (const [word, value] of nonsense) {
    it(`are expelled and woken, and nobody else is: ${word} is ${value}`, () => {
      const rig = new RingRig({ slots: 2 });
      const bad = rig.attach({ seat: 0 });
      const good = rig.attach({ seat: 1 });
      rig.scribble(0, word, value);
      rig.puts(2);
      assert.equal(rig.put(), undefined, "the other is waited for");
      assert.deepEqual([rig.control.expelled(0), rig.control.expelled(1)], [rig.leases[0], 0]);
      assert.deepEqual(rig.rung, [1, 0, 0]);
      for (const act of [() => bad.checkExpelled(), () => rig.drain(bad)]) {
        assert.throws(act, (error) => hasCode(error, "READER_EXPELLED"));
      }
      assert.deepEqual(rig.drain(good), [0, 1]);
      rig.endSeat(0);
      const next = rig.attach({ seat: 0 });
      rig.puts(1);
      assert.deepEqual(rig.drain(next), [2], "the next at its seat is not turned away");
    });
  }

  it("are expelled for claims beyond what is published", () => {
    const rig = new RingRig({ slots: 2, whenFull: "drop-oldest" });
    rig.attach();
    for (const claim of [50n, -50n]) {
      rig.scribble(0, "claims", claim, 3);
      rig.puts(2);
      assert.equal(rig.control.expelled(0), rig.leases[0]);
      rig.endSeat(0);
      rig.attach();
    }
  });

  it("are expelled if they take back released slots", () => {
    const rig = new RingRig({ slots: 2 });
    rig.drain(rig.attach());
    rig.puts(1);
    rig.scribble(0, "released", 1);
    rig.puts(1);
    rig.scribble(0, "released", 0);
    rig.puts(1);
    assert.equal(rig.control.expelled(0), rig.leases[0]);
  });

  it("are read twice, because a seat can change hands", () => {
    for (const mayAttach of [false, true]) {
      for (let at = 0, isReached = true; isReached; at += 1) {
        const rig = new RingRig({ slots: 2 });
        const reader = rig.attach();
        rig.puts(2);
        rig.drain(reader);
        rig.puts(1);
        isReached = duringAccess(
          at,
          () => {
            rig.endSeat(0);
            rig.beginSeat(0);
            if (mayAttach) rig.reader();
          },
          () => rig.put(),
        );
        assert.equal(rig.control.expelled(0), 0, `access ${at}`);
      }
    }
  });
});
