import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { filePattern, pathOf } from "../../../../src/cli/channel/output-pattern.js";
import { UsageError } from "../../../../src/cli/error-report.js";

describe("the path of a message", () => {
  for (const [pattern, path] of [
    ["frame-%d.npy", "frame-42.npy"],
    ["%06d", "000042"],
    ["a/%01d%", "a/42%"],
  ] as const) {
    it(`is ${path} for ${pattern}`, () => {
      const found = filePattern(pattern);
      assert.ok(found !== undefined);
      assert.equal(pathOf(found, 42), path);
    });
  }

  it("is one for all without a number in it, and no two numbers are taken", () => {
    assert.equal(filePattern("frame.npy"), undefined);
    assert.throws(() => filePattern("%d/%d"), UsageError);
  });
});
