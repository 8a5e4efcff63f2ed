/** The table of SECURITY.md names a test for each claim. Those tests must exist. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";

describe("SECURITY.md", () => {
  it("names a test that exists for each claim that the hub takes", () => {
    const text = readFileSync("SECURITY.md", "utf8");
    const [, section = ""] = text.split("## What the hub believes and what it checks");
    const rows = (section.split("\n## ")[0] ?? "")
      .split("\n")
      .filter((row) => row.startsWith("| "));
    const named = rows.slice(2).map((row) => [...row.matchAll(/`([a-z]+\/[\w/-]+)`/g)]);
    assert.ok(named.length > 15);
    for (const [index, tests] of named.entries()) {
      assert.ok(tests.length > 0, rows[index + 2]);
      for (const [, path] of tests) assert.ok(existsSync(`test/${path}.test.ts`), path);
    }
  });
});
