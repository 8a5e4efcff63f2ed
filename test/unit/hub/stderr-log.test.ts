import assert from "node:assert/strict";
import { closeSync, openSync, readFileSync, statSync, writeSync } from "node:fs";
import { describe, it } from "node:test";
import { dropOldLines } from "../../../src/hub/stderr-log.js";
import { TestFolder } from "../../support/test-folder.js";

describe("the log of a hub", () => {
  it("keeps its last lines once it is longer than 4 MiB, and goes on behind them", () => {
    using folder = new TestFolder();
    const path = folder.file("log");
    const fd = openSync(path, "a+");
    try {
      for (let count = 0; count < 200_000; count += 1) {
        writeSync(fd, `line ${String(count).padStart(40, "0")}\n`);
        if (count % 1000 === 0) dropOldLines(fd);
      }
    } finally {
      closeSync(fd);
    }
    assert.ok(statSync(path).size < 5 * 1024 * 1024);
    const lines = readFileSync(path, "utf8").trimEnd().split("\n");
    assert.equal(lines[0], "(earlier lines were dropped)");
    assert.equal(lines.at(-1), `line ${String(199_999).padStart(40, "0")}`);
    assert.ok(lines.slice(1).every((line) => /^line \d{40}$/.test(line)));
  });

  it("goes on without its earlier lines if it is open for writing alone", () => {
    using folder = new TestFolder();
    const path = folder.file("log");
    const fd = openSync(path, "a");
    try {
      writeSync(fd, new Uint8Array(5 * 1024 * 1024));
      dropOldLines(fd);
      writeSync(fd, "next\n");
    } finally {
      closeSync(fd);
    }
    assert.equal(readFileSync(path, "utf8"), "(earlier lines were dropped)\nnext\n");
  });
});
