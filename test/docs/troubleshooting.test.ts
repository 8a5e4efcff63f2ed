import assert from "node:assert/strict";
import { readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { deadLinks, faultsOfPage } from "./error-sections.js";

const read = (name: string) => readFileSync(join("docs", name), "utf8");

/** What is there beside a page: the text of a file, nothing of a folder. */
const beside = (page: string) => (file: string) => {
  const path = join(dirname(page), file);
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isFile() ? readFileSync(path, "utf8") : found && "";
};

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
  const docs = [
    "containers",
    "guide",
    "mechanisms",
    "performance",
    "protocol",
    "reference",
    "reliability",
    "troubleshooting",
  ];
  const pages = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "examples/README.md",
    "deploy/README.md",
  ];
  for (const page of [...pages, ...docs.map((name) => `docs/${name}.md`)]) {
    it(`${page}: lead somewhere`, () => {
      assert.deepEqual(deadLinks(readFileSync(page, "utf8"), beside(page)), []);
    });
  }

  it("would be found dead", () => {
    const page =
      "# A `b_c`, d\n[1](#a-b_c-d) [2](#none) [3](none.md#x) [4](other.md#there) [5](other.md#none) [6](other.md)";
    const textOf = (file: string) => (file === "other.md" ? "## There\n" : undefined);
    assert.deepEqual(deadLinks(page, textOf), ["#none", "none.md#x", "other.md#none"]);
  });
});
