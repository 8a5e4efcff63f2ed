import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { RingReader } from "../../../src/ring/ring-reader.js";
import { plainMessage, RingRig } from "../../support/ring/ring-rig.js";
import { dieAt } from "../../support/ring/shared-accesses.js";

const corrupt = (error: unknown) => hasCode(error, "CHANNEL_CORRUPT");

describe("what a reader loses before its first message", () => {
  /** The first that it takes: its sequence and what was missed. */
  const first = (reader: RingReader) => {
    const taken = reader.tryTake();
    assert.equal(reader.missed, taken?.missed);
    return [taken?.sequence, taken?.missed];
  };

  for (const [from, expected] of [
    ["next", 6],
    ["latest", 5],
    ["oldest", 2],
  ] as const) {
    it(`counts, from ${from} on`, () => {
      const rig = new RingRig({ slots: 4, firstPosition: 9 });
      rig.puts(6);
      const reader = rig.attach({ from, mayBeOvertaken: true });
      rig.puts(20);
      assert.deepEqual(first(reader), [22, 22 - expected]);
    });
  }

  it("counts in an empty ring, and where nothing was lost", () => {
    const rig = new RingRig({ slots: 1, firstPosition: 3 });
    const reader = rig.attach({ mayBeOvertaken: true });
    rig.puts(5);
    assert.deepEqual(first(reader), [4, 4]);
    const all = new RingRig({ slots: 4 });
    all.puts(2);
    const later = all.attach({ mayBeOvertaken: true });
    all.puts(2);
    assert.deepEqual(first(later), [2, 0]);
  });

  it("counts where positions were passed over, by messages before them or after", () => {
    for (const from of ["next", "oldest"] as const) {
      const rig = new RingRig({ slots: 8 });
      rig.puts(9);
      const passOver = () => {
        assert.ok(rig.writer.reserve());
        rig.writer.passOver();
      };
      for (let count = 0; count < 6; count += 1) passOver();
      // From "oldest": the first positions are passed over, and what says it comes after them.
      if (from === "oldest") rig.puts(1);
      const reader = rig.attach({ from, mayBeOvertaken: true });
      rig.puts(30);
      const next = from === "next" ? 9 : 8;
      const [sequence, missed] = first(reader);
      assert.equal(missed, Number(sequence) - next);
    }
  });

  it("counts nothing where no message is left to say what comes", () => {
    const rig = new RingRig({ slots: 4 });
    rig.puts(2);
    for (let count = 0; count < 4; count += 1) {
      rig.writer.reserve();
      rig.writer.passOver();
    }
    const reader = rig.attach({ mayBeOvertaken: true });
    rig.puts(20);
    assert.deepEqual(first(reader), [18, 0]);
    rig.puts(8);
    const second = reader.tryTake();
    assert.ok(second && second.missed > 0);
    assert.equal(second.missed, second.sequence - 19, "from the first on all counts");
  });

  it("does not count by a header whose writer died before its commit, and that is no message's", () => {
    let rig: RingRig;
    let at = 0;
    do {
      rig = new RingRig({ slots: 4 });
      rig.puts(3);
      dieAt(at++, () => rig.put());
    } while (rig.control.generation(3) !== 4);
    assert.equal(rig.control.published, 3);
    const reader = rig.attach({ mayBeOvertaken: true });
    rig.endWriter();
    rig.succeed();
    rig.writer.reserve();
    rig.writer.passOver();
    rig.puts(1);
    assert.deepEqual(first(reader), [3, 0]);
  });

  it("refuses a header that says what cannot be", () => {
    for (const sequence of [3, 2 ** 53, 2 ** 63]) {
      const rig = new RingRig({ firstPosition: 10 });
      rig.puts(2);
      rig.control.setHeader(3, sequence, plainMessage);
      assert.throws(() => rig.attach({ mayBeOvertaken: true }), corrupt);
    }
  });
});
