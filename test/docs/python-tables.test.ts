import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { pythonTables } from "./python-tables.js";

describe("the generated modules of the Python package", () => {
  for (const [path, text] of pythonTables()) {
    it(`${path} is what the source makes`, () => {
      assert.equal(readFileSync(path, "utf8"), text, "run: npm run docs:reference");
    });
  }

  it("spell the options in the remedies as Python does", () => {
    const [errors = ""] = pythonTables().values();
    assert.doesNotMatch(errors, /timeoutMs|whenFull|readersMax|\{ /);
    assert.match(errors, /Raise timeout, or/);
  });
});
