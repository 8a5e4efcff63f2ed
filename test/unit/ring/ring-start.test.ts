import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { control } from "../../../src/ring/channel-layout.js";
import type { RingReader } from "../../../src/ring/ring-reader.js";
import { plainMessage, RingRig } from "../../support/ring/ring-rig.js";
import { dieAt, eachAccess } from "../../support/ring/shared-accesses.js";

const corrupt = (error: unknown) => hasCode(error, "CHANNEL_CORRUPT");

describe("messages that a reader loses before its first one", () => {
  /** The first message that it takes: its sequence number and the messages missed before it. */
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
    it(`are counted, from ${from} on`, () => {
      const rig = new RingRig({ slots: 4, firstPosition: 9 });
      rig.puts(6);
      const reader = rig.attach({ from, lossy: true });
      rig.puts(20);
      assert.deepEqual(first(reader), [22, 22 - expected]);
    });
  }

  it("are counted in an empty ring, and if there are none", () => {
    const rig = new RingRig({ slots: 1, firstPosition: 3 });
    const reader = rig.attach({ lossy: true });
    rig.puts(5);
    assert.deepEqual(first(reader), [4, 4]);
    const all = new RingRig({ slots: 4 });
    all.puts(2);
    const later = all.attach({ lossy: true });
    all.puts(2);
    assert.deepEqual(first(later), [2, 0]);
  });

  it("are counted across passed-over positions, by the messages around them", () => {
    for (const from of ["next", "oldest"] as const) {
      const rig = new RingRig({ slots: 8 });
      rig.puts(9);
      const passOver = () => {
        assert.ok(rig.writer.reserve());
        rig.writer.passOver();
      };
      for (let count = 0; count < 6; count += 1) passOver();
      // From "oldest": the first positions are passed over, and only later messages give the count.
      if (from === "oldest") rig.puts(1);
      const reader = rig.attach({ from, lossy: true });
      rig.puts(30);
      const next = from === "next" ? 9 : 8;
      const [sequence, missed] = first(reader);
      assert.equal(missed, Number(sequence) - next);
    }
  });

  it("are not counted if no message is left to count from", () => {
    const rig = new RingRig({ slots: 4 });
    rig.puts(2);
    for (let count = 0; count < 4; count += 1) {
      rig.writer.reserve();
      rig.writer.passOver();
    }
    const reader = rig.attach({ lossy: true });
    rig.puts(20);
    assert.deepEqual(first(reader), [18, 0]);
    rig.puts(8);
    const second = reader.tryTake();
    assert.ok(second && second.missed > 0);
    assert.equal(second.missed, second.sequence - 19, "from the first on all counts");
  });

  it("are not counted from a header whose writer died before its commit", () => {
    let rig: RingRig;
    let at = 0;
    do {
      rig = new RingRig({ slots: 4 });
      rig.puts(3);
      dieAt(at++, () => rig.put());
    } while (rig.control.generation(3) !== 4);
    assert.equal(rig.control.published, 3);
    const reader = rig.attach({ lossy: true });
    rig.endWriter();
    rig.succeed();
    rig.writer.reserve();
    rig.writer.passOver();
    rig.puts(1);
    assert.deepEqual(first(reader), [3, 0]);
  });

  it("are not counted from an impossible header", () => {
    for (const sequence of [2 ** 53, 2 ** 63]) {
      const rig = new RingRig({ firstPosition: 10 });
      rig.puts(2);
      rig.control.setHeader(3, sequence, plainMessage);
      assert.throws(() => rig.attach({ lossy: true }), corrupt);
    }
  });
});

describe("a reader that attaches", () => {
  for (const accesses of [1, 2, 3]) {
    it(`needs few steps, whatever the words say during ${accesses} of its accesses`, () => {
      for (let at = 0, isReached = true; isReached; at += 1) {
        isReached = false;
        const rig = new RingRig({ slots: 4 });
        rig.puts(9);
        const words = new BigInt64Array(rig.memory.control);
        const { published, limit } = rig.control;
        const before = (count: number) => {
          assert.ok(count < 1000, "it goes on and on");
          if (count === at) isReached = true;
          const lies = count >= at && count < at + accesses;
          words[control.published / 8] = BigInt(lies ? 2 ** 52 : published);
          words[control.limit / 8] = BigInt(lies ? 2 ** 52 : limit);
        };
        try {
          eachAccess(before, () => rig.attach({ lossy: true }));
        } catch (error) {
          if (!corrupt(error)) throw error;
        }
      }
    });
  }
});
