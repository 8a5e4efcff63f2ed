import assert from "node:assert/strict";
import { it } from "node:test";
import { parseBytes } from "../../../src/base/bytes.js";

it("parseBytes takes whole numbers of bytes, with or without a unit, and nothing else", () => {
  const sizes = {
    "0": 0,
    "4096": 4096,
    "1KiB": 1024,
    "1.5 MiB": 1_572_864,
    "64GiB": 2 ** 36,
    "2TiB": 2 ** 41,
    "1PiB": 2 ** 50,
  };
  for (const [text, byteLength] of Object.entries(sizes))
    assert.equal(parseBytes(text), byteLength, text);
  for (const text of [
    "",
    "GiB",
    "-1",
    "1GB",
    "1gib",
    "0.3KiB",
    "1e3",
    " 1",
    "1  KiB",
    "9PiBs",
    "99999999PiB",
    "Infinity",
  ]) {
    assert.equal(parseBytes(text), undefined, text);
  }
});
