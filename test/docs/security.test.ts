/** Tables of SECURITY.md name a test for each claim and promise. Those tests must exist. */
import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { describe, it } from "node:test";

describe("SECURITY.md", () => {
  const sections = ["What the hub believes and what it checks", "Bridges", "Services", "Files"];
  for (const title of sections)
    it(`names a test that exists for each row of "${title}"`, () => {
      const text = readFileSync("SECURITY.md", "utf8");
      const [, section = ""] = text.split(`\n## ${title}\n`);
      const rows = (section.split("\n## ")[0] ?? "")
        .split("\n")
        .filter((row) => row.startsWith("| "));
      // The tests are in the last cell.
      const cells = rows.slice(2).map((row) => row.split(" | ").at(-1) ?? "");
      const named = cells.map((cell) => [...cell.matchAll(/`([a-z]+\/[\w/-]+)`/g)]);
      assert.ok(named.length > 4);
      for (const [index, tests] of named.entries()) {
        assert.ok(tests.length > 0, rows[index + 2]);
        for (const [, path] of tests) assert.ok(existsSync(`test/${path}.test.ts`), path);
      }
    });
});
