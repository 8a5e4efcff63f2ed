/** Checks the pictures in channel-layout.ts against the bytes. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  CHANNEL_VERSION,
  controlByteLength,
  headerStrideOf,
  memorySlots,
  whenFullPolicies,
  windowOf,
} from "../../../src/ring/channel-layout.js";
import { createControlFile } from "../../../src/ring/control-file.js";
import { ringFacts } from "../../support/ring/ring-facts.js";
import { RingRig } from "../../support/ring/ring-rig.js";

describe("the control file", () => {
  const facts = ringFacts({
    slots: 5,
    readersMax: 2,
    metaBytesMax: 65,
    slotBytes: 2 ** 33 + 1,
    slotStride: 2 ** 34,
    whenFull: "drop-newest",
    whenWriterGone: "wait",
    firstPosition: 2 ** 40 + 3,
  });
  const buffer = new SharedArrayBuffer(controlByteLength(facts));
  const control = createControlFile(buffer, facts);
  const view = new DataView(buffer);
  const word32 = (byteOffset: number) => view.getUint32(byteOffset, true);
  const word64 = (byteOffset: number) => Number(view.getBigUint64(byteOffset, true));

  it("begins with the constant words", () => {
    assert.equal(Buffer.from(buffer, 0, 8).toString("latin1"), "CIPCCHAN");
    assert.deepEqual([8, 12, 16, 20, 40, 44, 48, 52].map(word32), [
      CHANNEL_VERSION,
      5,
      2,
      65,
      5120,
      128 + 128,
      whenFullPolicies.indexOf("drop-newest"),
      1,
    ]);
    assert.deepEqual([24, 32, 56].map(word64), [2 ** 33 + 1, 2 ** 34, 2 ** 40 + 3]);
  });

  it("has each word of the writer at the offset of the picture", () => {
    control.publish(2 ** 40 + 11);
    control.setSequence(12);
    control.setLimit(2 ** 40 + 13);
    control.setDropped(14);
    control.setEpoch(15);
    control.setAsleep(16);
    control.setExpelled(1, 17);
    assert.deepEqual([128, 192, 200, 208, 328].map(word64), [
      2 ** 40 + 11,
      2 ** 40 + 13,
      14,
      12,
      17,
    ]);
    assert.deepEqual([256, 260, 264].map(word32), [1, 15, 16]);
    assert.deepEqual(
      [control.readyOffset(0), control.readyOffset(63), control.readyOffset(64)],
      [1024, 5056, 1024],
    );
    for (const [index, state] of (
      ["none", "open", "closed", "gone", "awaited"] as const
    ).entries()) {
      control.setState(state);
      assert.equal(word32(256), index);
      assert.equal(control.state, state);
    }
  });

  it("has each word of a header at the offset of the picture", () => {
    const at = 5120 + 2 * 256;
    const message = {
      timestampMs: 1.25,
      byteLength: 2 ** 33,
      readyAt: 2 ** 41,
      epoch: 2 ** 32 - 1,
      flags: 3,
      metaBytes: 4,
    };
    control.setHeader(2, 2 ** 42 + 7, message);
    control.commit(2, 2 ** 43);
    control.passOver(2, 2 ** 44);
    control.setShape(2, [3, 2 ** 35, 4]);
    control.meta(2, 4).set([9, 8, 7, 6]);
    assert.deepEqual(
      [0, 8, 24, 32, 56].map((offset) => word64(at + offset)),
      [2 ** 43 + 1, 2 ** 42 + 7, 2 ** 33, 2 ** 41, 2 ** 44 + 1],
    );
    assert.equal(view.getFloat64(at + 16, true), 1.25);
    assert.deepEqual(
      [40, 44, 48, 52].map((offset) => word32(at + offset)),
      [2 ** 32 - 1, 3, 4, 3],
    );
    assert.deepEqual(
      [64, 72, 80].map((offset) => word64(at + offset)),
      [3, 2 ** 35, 4],
    );
    assert.deepEqual([...new Uint8Array(buffer, at + 128, 4)], [9, 8, 7, 6]);
    assert.deepEqual(control.header(2), { ...message, sequence: 2 ** 42 + 7 });
    assert.equal(control.generation(2), 2 ** 43 + 1);
    assert.equal(control.passedOver(2), 2 ** 44 + 1);
    assert.deepEqual(control.shape(2), [3, 2 ** 35, 4]);
    assert.equal(control.flags(2), 3);
  });

  it("limits a rank to 8, whatever is written", () => {
    view.setUint32(5120 + 52, 4_000_000_000, true);
    assert.equal(control.shape(0).length, 8);
  });
});

describe("a reader's page", () => {
  it("has each word at the offset of the picture", () => {
    const rig = new RingRig({ slots: 16, whenFull: "drop-oldest" });
    rig.puts(3);
    const reader = rig.attach({ from: "oldest" });
    const [first, second, third] = [reader.tryTake(), reader.tryTake(), reader.tryTake()];
    assert.ok(first && second && third);
    reader.release(second, () => {});
    reader.release(first, () => {});
    const page = rig.pages[0];
    page?.setDone(1);
    page?.setGpuReleased(9);
    reader.fallAsleep();
    const view = new DataView(rig.memory.pages[0] as SharedArrayBuffer);
    const word64 = (byteOffset: number) => Number(view.getBigInt64(byteOffset, true));
    assert.deepEqual(
      [8, 12, 16].map((offset) => view.getUint32(offset, true)),
      [1, 1, 1],
    );
    assert.deepEqual([0, 64, 72].map(word64), [rig.leases[0], 2, 9]);
    assert.deepEqual([128, 136, 144, 152].map(word64), [-1, -2, 3, 0]);
    assert.deepEqual([192, 256, 264].map(word64), [1, 3, 0]);
  });
});

describe("sizes", () => {
  it("are those of the picture", () => {
    assert.deepEqual([0, 1, 64, 65].map(headerStrideOf), [128, 192, 192, 256]);
    assert.equal(controlByteLength({ slots: 3, metaBytesMax: 0 }), 5120 + 3 * 128);
    assert.deepEqual(
      whenFullPolicies.map((whenFull) => memorySlots({ slots: 4, whenFull })),
      [4, 4, 5, 4],
    );
    assert.deepEqual([1, 2, 4, 7, 8, 64].map(windowOf), [1, 1, 1, 1, 2, 16]);
  });
});
