import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { JsonError, parseStrictJson, type StrictJson } from "../../../src/files/strict-json.js";

/** The result of JSON.parse, with NaN for numbers that are not written as unsigned integers. */
function plain(value: StrictJson): unknown {
  if (value instanceof Map)
    return Object.fromEntries([...value].map(([name, item]) => [name, plain(item)]));
  if (Array.isArray(value)) return value.map(plain);
  return value;
}

const integers = fc.nat();
const { json } = fc.letrec((tie) => ({
  json: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.oneof(integers, fc.boolean(), fc.constant(null), fc.string({ unit: "binary" })),
    fc.array(tie("json"), { maxLength: 4 }),
    fc.dictionary(fc.string({ unit: "binary" }), tie("json"), { maxKeys: 4 }),
  ),
}));

describe("parseStrictJson", () => {
  it("returns the same as JSON.parse, with and without spaces", () => {
    fc.assert(
      fc.property(json, fc.nat({ max: 2 }), (value, indent) => {
        const text = JSON.stringify(value, undefined, indent);
        assert.deepEqual(plain(parseStrictJson(text)), JSON.parse(text));
      }),
    );
  });

  it("refuses every text that JSON.parse refuses", () => {
    const tokens = fc.constantFrom(
      "{",
      "}",
      "[",
      "]",
      ",",
      ":",
      '"a"',
      '"',
      "\\",
      "1",
      "01",
      "-",
      ".5",
      "1.",
      "tru",
      "true",
      " ",
      "\u00a0",
      "\0",
      "\n",
    );
    fc.assert(
      fc.property(fc.array(tokens, { maxLength: 6 }), (parts) => {
        const text = parts.join("");
        let accepted = true;
        try {
          JSON.parse(text);
        } catch {
          accepted = false;
        }
        if (!accepted) assert.throws(() => parseStrictJson(text), JsonError);
      }),
      { numRuns: 5000 },
    );
  });
});
