import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { contiguousLayout } from "../../../../src/array/layout.js";
import {
  decodeBundleIndex,
  encodeBundleIndex,
} from "../../../../src/client/objects/bundle-index.js";

describe("decodeBundleIndex", () => {
  it("refuses more lists than the claimed arrays need, before they are parsed", () => {
    // Not even JSON, so only a check before the parser can find it.
    assert.throws(() => decodeBundleIndex("model", Buffer.from("[[[[{{["), 1, 8), {
      code: "INVALID_DESCRIPTOR",
      message: /its index has 7 lists and objects, but 1 arrays were claimed, .* at most 6/,
    });
  });

  it("takes brackets in texts for no lists", () => {
    const layouts = new Map([["a", contiguousLayout("int32", [2])]]);
    for (const text of ["[[[[{{{", '"[[[[{{{', "\\[[[[{{{", 'a\\"[[[{{{{'.repeat(100)]) {
      const content = { layouts, metadata: { text } };
      assert.deepEqual(decodeBundleIndex("model", encodeBundleIndex(content), 1, 8), content);
    }
  });
});
