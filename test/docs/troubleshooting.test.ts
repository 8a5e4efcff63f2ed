import assert from "node:assert/strict";
import { readdirSync, readFileSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { deadLinks, faultsOfPage, longLines } from "./page-faults.js";

const read = (name: string) => readFileSync(join("docs", name), "utf8");

/** Finds what a page links to: the text of a file, an empty text for a folder. */
const beside = (page: string) => (file: string) => {
  const path = join(dirname(page), file);
  const found = statSync(path, { throwIfNoEntry: false });
  return found?.isFile() ? readFileSync(path, "utf8") : found && "";
};

describe("docs/troubleshooting.md", () => {
  it("has a section with cause and remedy for every error code, and no other section", () => {
    assert.deepEqual(faultsOfPage(read("troubleshooting.md")), []);
  });

  it("the check finds a missing section, a wrong title and a missing remedy", () => {
    const page = read("troubleshooting.md");
    const faults = (from: string | RegExp, to: string) => faultsOfPage(page.replace(from, to));
    assert.deepEqual(faults("### `TIMEOUT`", "### Timeout"), ["TIMEOUT is missing"]);
    assert.deepEqual(faults("### `TIMEOUT`", "### `TIMOUT`"), [
      "TIMEOUT is missing",
      "TIMOUT is no error code",
    ]);
    assert.deepEqual(faults("### `TIMEOUT`", "### `ABORTED`"), [
      "ABORTED has two sections",
      "TIMEOUT is missing",
    ]);
    assert.deepEqual(faults(/(### `SYSTEM_ERROR`[\s\S]*)\*\*Remedy:\*\*/, "$1"), [
      "SYSTEM_ERROR has no Remedy",
    ]);
  });
});

describe("the documents", () => {
  const pages = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "examples/README.md",
    "deploy/README.md",
  ];
  const docs = readdirSync("docs").filter((name) => name.endsWith(".md"));
  for (const page of [...pages, ...docs.map((name) => `docs/${name}`)]) {
    it(`${page}: lines have at most 100 characters`, () => {
      assert.deepEqual(longLines(readFileSync(page, "utf8")), []);
    });

    it(`${page}: every link leads to a file and a heading that exist`, () => {
      assert.deepEqual(deadLinks(readFileSync(page, "utf8"), beside(page)), []);
    });
  }

  it("the check finds long lines, but for tables and links", () => {
    const long = "a ".repeat(60);
    const page = [long, `| ${long} |`, `${long} [a](b.md)`, "short"].join("\n");
    assert.deepEqual(longLines(page), [long]);
  });

  it("the check finds dead links", () => {
    const page =
      "# A `b_c`, d\n[1](#a-b_c-d) [2](#none) [3](none.md#x) [4](other.md#there) [5](other.md#none) [6](other.md)";
    const textOf = (file: string) => (file === "other.md" ? "## There\n" : undefined);
    assert.deepEqual(deadLinks(page, textOf), ["#none", "none.md#x", "other.md#none"]);
  });
});
