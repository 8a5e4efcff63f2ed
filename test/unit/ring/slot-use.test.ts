import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { control as controlAt, page as pageAt } from "../../../src/ring/channel-layout.js";
import { slotUseOf } from "../../../src/ring/slot-use.js";
import { RingRig } from "../../support/ring/ring-rig.js";

const initials = { free: ".", unreleased: "u", claimed: "c", stream: "s" };

/** One letter for each column. */
function strips(rig: RingRig, columnsMax = 64): string[] {
  return slotUseOf(rig.control, rig.pages, columnsMax).readers.map(({ states }) =>
    states.map((state) => initials[state]).join(""),
  );
}

describe("slotUseOf", () => {
  it("shows the messages that a reader has not released, the newest last", () => {
    const rig = new RingRig({ slots: 4, readersMax: 2 });
    const reader = rig.attach();
    const other = rig.attach({ seat: 1 });
    rig.puts(3);
    assert.deepEqual(strips(rig), [".uuu", ".uuu"]);
    const taken = reader.tryTake();
    assert.ok(taken !== undefined);
    assert.deepEqual(strips(rig), [".uuu", ".uuu"], "taken, and not given back");
    reader.release(taken);
    rig.drain(other);
    assert.deepEqual(strips(rig), ["..uu", "...."]);
    other.detach();
    assert.deepEqual(strips(rig), ["..uu"]);
  });

  it("shows claims of a lossy reader also after the ring went round", () => {
    const rig = new RingRig({ slots: 4 });
    const reader = rig.attach({ lossy: true });
    rig.puts(1);
    const taken = reader.tryTake();
    assert.ok(taken !== undefined);
    assert.deepEqual(strips(rig), ["...c"]);
    rig.puts(2);
    assert.deepEqual(strips(rig), [".cuu"]);
    rig.puts(2);
    const { firstSlot } = slotUseOf(rig.control, rig.pages, 4);
    const claimedAt = (strips(rig)[0] ?? "").indexOf("c");
    assert.equal((firstSlot + claimedAt) % 4, 0, "the first slot stays claimed");
    reader.release(taken);
    assert.doesNotMatch(strips(rig)[0] ?? "", /c/);
  });

  it("shows slots that a stream of the reader still uses", () => {
    const rig = new RingRig({ slots: 4 });
    const reader = rig.attach();
    rig.puts(2);
    const values: number[] = [];
    const taken = reader.tryTake();
    assert.ok(taken !== undefined);
    reader.release(taken, (value) => values.push(value));
    assert.deepEqual(strips(rig), ["..su"]);
    rig.pages[0]?.setDone(values[0] ?? 0);
    assert.deepEqual(strips(rig), ["...u"]);
  });

  it("joins slots to columns, of which each has its most important state", () => {
    const rig = new RingRig({ slots: 10 });
    rig.attach();
    rig.puts(3);
    const { columns, slotsPerColumn, firstSlot, slots } = slotUseOf(rig.control, rig.pages, 4);
    assert.deepEqual(
      { columns, slotsPerColumn, firstSlot, slots },
      { columns: 4, slotsPerColumn: 3, firstSlot: 3, slots: 10 },
    );
    assert.deepEqual(strips(rig, 4), ["..uu"]);
  });

  it("says how many slots the writer may write without another look", () => {
    const rig = new RingRig({ slots: 8 });
    rig.puts(1);
    assert.equal(slotUseOf(rig.control, rig.pages, 64).writable, 1);
  });

  it("stays within its columns whatever the words are", () => {
    const rig = new RingRig({ slots: 4 });
    rig.attach();
    const control = new BigInt64Array(rig.memory.control);
    const page = new BigInt64Array(rig.memory.pages[0] as ArrayBufferLike);
    for (const wild of [-1n, 2n ** 53n, 2n ** 63n - 1n, -(2n ** 63n)]) {
      control[controlAt.published >> 3] = wild;
      control[controlAt.limit >> 3] = -wild;
      for (const at of [pageAt.released, pageAt.gpuReleased, pageAt.claims, pageAt.done])
        page[at >> 3] = -wild;
      const use = slotUseOf(rig.control, rig.pages, 4);
      assert.equal(use.readers[0]?.states.length, 4);
      assert.ok(use.writable >= 0 && use.writable <= 4);
    }
  });
});
