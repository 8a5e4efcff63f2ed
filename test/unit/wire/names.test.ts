import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { checkName, isValidName } from "../../../src/wire/names.js";

describe("checkName", () => {
  it("accepts names that need no quoting", () => {
    for (const name of [
      "a",
      "A",
      "0",
      "_",
      "model.layer-1:weights_v2",
      "x".repeat(limits.nameBytesMax),
    ]) {
      assert.equal(checkName(name), name);
      assert.ok(isValidName(name));
    }
  });

  const refused: Record<string, string> = {
    empty: "",
    "too long": "x".repeat(limits.nameBytesMax + 1),
    "10 kB": "x".repeat(10_000),
    "a slash": "a/b",
    "a path upwards": "../a",
    "a leading dot": ".a",
    "a leading dash, an option": "-rf",
    "a leading colon": ":a",
    "a space": "a b",
    "a newline at its end": "a\n",
    "a zero byte": "a\0b",
    "a control character": "a\u001b[31m",
    "a letter outside of ASCII": "größe",
    "a lookalike": "\u0430",
    "an emoji": "🙂",
    "half of a surrogate pair": "\ud83d",
    "a quote": 'a"b',
    "a backslash": "a\\b",
    "a wildcard": "a*",
  };
  for (const [what, name] of Object.entries(refused)) {
    it(`refuses ${what} with a message that fits a terminal`, () => {
      assert.equal(isValidName(name), false);
      assert.throws(
        () => checkName(name),
        (error) =>
          hasCode(error, "INVALID_NAME") &&
          error.message.length < 300 &&
          [...error.message].every((c) => c >= " "),
      );
    });
  }
});
