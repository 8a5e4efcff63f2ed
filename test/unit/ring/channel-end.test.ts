import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { endChannel } from "../../../src/ring/channel-end.js";
import { page as at } from "../../../src/ring/channel-layout.js";
import { RingRig, wordsFile } from "../../support/ring/ring-rig.js";

const POISON = 2n ** 63n - 1n;

function words(buffer: ArrayBufferLike | undefined): BigInt64Array {
  return new BigInt64Array(buffer as ArrayBufferLike);
}

describe("a place", () => {
  it("has nothing of an earlier reader but the end of its timeline and the count of its sleeps", () => {
    const rig = new RingRig({ whenFull: "drop-oldest" });
    rig.puts(2);
    const reader = rig.attach({ from: "oldest" });
    reader.tryTake();
    reader.fallAsleep();
    rig.scribble(0, "gpuReleased", 9);
    rig.scribble(0, "done", 1);
    rig.endPlace(0);
    const page = words(rig.memory.pages[0]);
    assert.deepEqual([page[at.done / 8], page[at.done / 8 + 1], page[at.lease / 8]], [POISON, 1n, 0n]);
    assert.equal(rig.pages[0]?.state, 0);
    rig.beginPlace(0);
    const expected = new BigInt64Array(page.length);
    expected[0] = BigInt(rig.leases[0] as number);
    expected[at.asleep / 8] = 1n;
    expected[at.done / 8] = POISON;
    expected[at.done / 8 + 1] = 1n;
    assert.deepEqual([...page], [...expected]);
  });

  it("keeps the end of a timeline that was ended before", () => {
    const rig = new RingRig();
    rig.attach();
    rig.scribble(0, "done", 5);
    rig.endPlace(0);
    rig.endPlace(0);
    assert.equal(words(rig.memory.pages[0])[at.done / 8 + 1], 5n);
  });
});

describe("the end of a writer", () => {
  for (const [whenWriterGone, state] of [
    ["end", "gone"],
    ["wait", "awaited"],
  ] as const) {
    it(`leaves the channel ${state} where it is to ${whenWriterGone}, and ends the timeline of its epoch`, () => {
      const rig = new RingRig({ whenWriterGone });
      rig.control.setEpoch(2 ** 32 - 1);
      const ready = rig.control.readyOffset(2 ** 32 - 1) / 8;
      words(rig.memory.control)[ready] = 3n;
      rig.endWriter();
      assert.equal(rig.control.state, state);
      assert.deepEqual([...words(rig.memory.control).subarray(ready, ready + 2)], [POISON, 3n]);
      rig.endWriter();
      assert.deepEqual([...words(rig.memory.control).subarray(ready, ready + 2)], [POISON, 3n]);
    });
  }

  it("changes nothing where the writer had closed the channel", () => {
    const rig = new RingRig();
    rig.control.setState("closed");
    const before = [...words(rig.memory.control)];
    rig.endWriter();
    endChannel(wordsFile(rig.memory.control));
    assert.deepEqual([...words(rig.memory.control)], before);
  });

  it("is the end for good where the channel ends, whether a writer is there or awaited", () => {
    for (const isAwaited of [false, true]) {
      const rig = new RingRig({ whenWriterGone: "wait" });
      if (isAwaited) rig.endWriter();
      endChannel(wordsFile(rig.memory.control));
      assert.equal(rig.control.state, "gone");
    }
  });
});
