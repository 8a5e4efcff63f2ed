import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { contiguousLayout } from "../../../../src/array/layout.js";
import {
  decodeBundleIndex,
  encodeBundleIndex,
} from "../../../../src/client/objects/bundle-index.js";

describe("decodeBundleIndex", () => {
  it("refuses more lists than the claimed arrays need, before they are parsed", async () => {
    // Not even JSON, so only a check before the parser can find it.
    await assert.rejects(decodeBundleIndex("model", Buffer.from("[[[[{{["), 1, 8), {
      code: "INVALID_DESCRIPTOR",
      message: /its index has 7 lists and objects, but 1 arrays were claimed, .* at most 6/,
    });
  });

  it("takes brackets in texts for no lists", async () => {
    const layouts = new Map([["a", contiguousLayout("int32", [2])]]);
    for (const text of ["[[[[{{{", '"[[[[{{{', "\\[[[[{{{", 'a\\"[[[{{{{'.repeat(100)]) {
      const content = { layouts, metadata: { text } };
      const decoded = await decodeBundleIndex("model", encodeBundleIndex(content), 1, 8);
      assert.deepEqual(decoded, content);
    }
  });

  it("lets other work go on while it checks many arrays", async () => {
    const count = 20_000;
    const layout = contiguousLayout("int32", [2]);
    const layouts = new Map(Array.from({ length: count }, (_, at) => [`array ${at}`, layout]));
    const bytes = encodeBundleIndex({ layouts, metadata: {} });
    let turns = 0;
    let isDone = false;
    const tick = () => {
      turns += 1;
      if (!isDone) setImmediate(tick);
    };
    setImmediate(tick);
    const decoded = await decodeBundleIndex("model", bytes, count, 8);
    isDone = true;
    assert.equal(decoded.layouts.size, count);
    assert.ok(turns >= 10, `${turns} turns of the event loop`);
  });

  it("says which array is wrong", async () => {
    const layout = contiguousLayout("int32", [2]);
    const good = { name: "a", ...layout };
    for (const [bad, found] of [
      [{ ...good, more: 1 }, /array 1 in the index of "model": more: expected never/],
      [{ ...good, shape: [-1] }, /array 1 in the index of "model": shape\.0: expected/],
      [{ ...good }, /two of its arrays are named "a"/],
      [5, /array 1 in the index of "model": the document: expected Object/],
    ] as const) {
      const bytes = Buffer.from(JSON.stringify({ version: 1, metadata: {}, arrays: [good, bad] }));
      await assert.rejects(decodeBundleIndex("model", bytes, 2, 8), {
        code: "INVALID_DESCRIPTOR",
        message: found,
      });
    }
    const noList = Buffer.from('{"version":1,"metadata":{},"arrays":"none"}');
    await assert.rejects(decodeBundleIndex("model", noList, 2, 8), { code: "INVALID_DESCRIPTOR" });
  });
});
