import assert from "node:assert/strict";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, it } from "node:test";
import { deadLinks, faultsOfPage } from "./error-sections.js";

const read = (name: string) => readFileSync(join("docs", name), "utf8");
const exists = (file: string) => existsSync(join("docs", file));

describe("docs/troubleshooting.md", () => {
  it("has cause and remedy of every error code, and of nothing else", () => {
    assert.deepEqual(faultsOfPage(read("troubleshooting.md")), []);
  });

  it("would be found incomplete", () => {
    const page = read("troubleshooting.md");
    const faults = (from: string | RegExp, to: string) => faultsOfPage(page.replace(from, to));
    assert.deepEqual(faults("### `TIMEOUT`", "### Timeout"), ["TIMEOUT is missing"]);
    assert.deepEqual(faults("### `TIMEOUT`", "### `TIMOUT`"), ["TIMEOUT is missing", "TIMOUT is no error code"]);
    assert.deepEqual(faults("### `TIMEOUT`", "### `ABORTED`"), ["ABORTED has two sections", "TIMEOUT is missing"]);
    assert.deepEqual(faults(/(### `SYSTEM_ERROR`[\s\S]*)\*\*Remedy:\*\*/, "$1"), ["SYSTEM_ERROR has no Remedy"]);
  });
});

describe("links of the documents", () => {
  for (const name of ["troubleshooting.md", "mechanisms.md", "guide.md"]) {
    it(`${name}: lead somewhere`, () => {
      assert.deepEqual(deadLinks(read(name), exists), []);
    });
  }

  it("would be found dead", () => {
    assert.deepEqual(deadLinks("# A `b_c`, d\n[1](#a-b_c-d) [2](#none) [3](none.md#x)", exists), [
      "#none",
      "none.md#x",
    ]);
  });
});
