import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { cutToWidth, inWidth, textWidth } from "../../../../src/cli/terminal/text-width.js";

describe("textWidth", () => {
  for (const [text, width] of [
    ["", 0],
    ["frame", 5],
    ["Grüße", 5],
    ["e\u0301", 1],
    ["\u200b", 0],
    ["日本語", 6],
    ["한글", 4],
    ["ａ", 2],
    ["🎉", 2],
  ] as const) {
    it(`is ${width} for ${JSON.stringify(text)}`, () => assert.equal(textWidth(text), width));
  }
});

describe("cutToWidth", () => {
  it("keeps what fits, and marks a cut", () => {
    assert.equal(cutToWidth("frame", 5), "frame");
    assert.equal(cutToWidth("frames", 5), "fram~");
    assert.equal(cutToWidth("frames", 0), "");
  });

  it("never cuts a wide character in two", () => {
    assert.equal(cutToWidth("日本語", 5), "日本~");
    assert.equal(cutToWidth("日本語", 4), "日~");
  });
});

describe("inWidth", () => {
  it("fills the width on either side", () => {
    assert.equal(inWidth("ab", 4, "left"), "ab  ");
    assert.equal(inWidth("日", 4, "right"), "  日");
    assert.equal(inWidth("日本", 3, "left"), "日~");
  });
});
