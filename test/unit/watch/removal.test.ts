import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { removalWords } from "../../../src/cli/terminal/removal-words.js";
import { removalOf } from "../../../src/watch/removal.js";
import { gpuArray, hostArray, pooledArray, timelineDescriptor } from "../../support/messages.js";

const object = {
  name: "x",
  object: 1,
  published: true,
  lifetime: "pinned",
  sharing: { with: "private", access: "read" },
  leases: 0,
  ownerPid: null,
  ownerUid: 0,
  hasMemory: true,
  createdAtMs: 0,
  unheldSinceMs: 0,
  descriptor: hostArray,
} as const;

describe("the removal of an object", () => {
  it("frees its memory at once if nobody holds it, and after the last lease otherwise", () => {
    const words = (leases: number) => removalWords(removalOf({ ...object, leases }));
    assert.match(words(0), /^frees \d.* at once$/);
    assert.match(words(1), /^frees \d.* once its lease ends$/);
    assert.match(words(3), /^frees \d.* once its 3 leases end$/);
    const { allocationByteLength } = gpuArray;
    assert.equal(removalOf({ ...object, descriptor: gpuArray }).bytes, allocationByteLength);
  });

  it("frees nothing of memory that something else keeps", () => {
    const pooled = removalOf({ ...object, descriptor: pooledArray });
    assert.deepEqual([pooled.bytes, pooled.keptBy], [0, "pool"]);
    const timeline = removalOf({ ...object, descriptor: timelineDescriptor });
    assert.deepEqual([timeline.bytes, timeline.keptBy], [0, "timelines"]);
    const absent = removalOf({ ...object, hasMemory: false, leases: 2 });
    assert.deepEqual([absent.bytes, absent.keptBy], [0, "holders"]);
    for (const removal of [pooled, timeline, absent])
      assert.match(removalWords(removal), /^frees nothing: /);
  });
});
