import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { filePattern, pathOf } from "../../../../src/cli/channel/message-sinks.js";
import { UsageError } from "../../../../src/cli/terminal/error-report.js";

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

  it("has no number without %d, and refuses two", () => {
    assert.equal(filePattern("frame.npy"), undefined);
    assert.throws(() => filePattern("%d/%d"), UsageError);
  });
});
