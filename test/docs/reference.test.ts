import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import { withTables } from "./reference-tables.js";

describe("docs/reference.md", () => {
  it("has the tables that the source makes", () => {
    const page = readFileSync("docs/reference.md", "utf8");
    assert.equal(page, withTables(page), "run: npm run docs:reference");
  });

  it("the check finds a table that is out of date", () => {
    const page = readFileSync("docs/reference.md", "utf8").replace("| `TIMEOUT` |", "| `TIMOUT` |");
    assert.notEqual(page, withTables(page));
  });
});
