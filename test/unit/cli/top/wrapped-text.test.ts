import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { wrapped } from "../../../../src/cli/top/wrapped-text.js";

describe("wrapped", () => {
  it("breaks between words", () => {
    assert.deepEqual(wrapped("one two three", 7), ["one two", "three"]);
    assert.deepEqual(wrapped("one", 10), ["one"]);
    assert.deepEqual(wrapped("", 10), [""]);
  });

  it("cuts words that are wider than a line, and loses nothing", () => {
    const name = "x".repeat(255);
    const lines = wrapped(`name ${name}`, 20);
    assert.ok(lines.every((line) => line.length <= 20));
    assert.equal(lines.join("").replace("name", ""), name);
    assert.deepEqual(wrapped("日本語", 1).join(""), "日本語");
  });
});
