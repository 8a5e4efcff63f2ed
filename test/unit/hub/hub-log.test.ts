import assert from "node:assert/strict";
import { closeSync, openSync, readFileSync, statSync, writeSync } from "node:fs";
import { describe, it, mock } from "node:test";
import { dropOldLines, LimitedLog } from "../../../src/hub/hub-log.js";
import { TestFolder } from "../../support/test-folder.js";

describe("LimitedLog", () => {
  it("writes the first lines of a kind, then one line for the rest of the interval", () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      const lines: string[] = [];
      const { log } = new LimitedLog((line) => lines.push(line));
      for (let pid = 1; pid <= 1000; pid += 1) log(`refused process ${pid} of "frame-${pid}"`);
      assert.equal(lines.length, 5);
      mock.timers.tick(10_000);
      assert.deepEqual(lines.slice(5), [
        '995 more like this, the last of them: refused process 1000 of "frame-1000"',
      ]);
      log("refused process 7");
      mock.timers.tick(10_000);
      assert.equal(lines.length, 7, "the next interval starts again");
    } finally {
      mock.timers.reset();
    }
  });

  it("counts the lines of each user separately", () => {
    const lines: string[] = [];
    const limited = new LimitedLog((line) => lines.push(line));
    for (let count = 0; count < 100; count += 1) limited.log("Cannot serve user 12");
    limited.log("Cannot serve user 13");
    assert.equal(lines.at(-1), "Cannot serve user 13");
    limited.flush();
  });

  it("stays small if there are many kinds of lines", () => {
    const lines: string[] = [];
    const limited = new LimitedLog((line) => lines.push(line));
    for (let count = 0; count < 100_000; count += 1)
      limited.log(`kind ${"x".repeat(count % 1000)}`);
    assert.ok(lines.length <= 505, `${lines.length} lines`);
    limited.flush();
    assert.ok(lines.length <= 606, `${lines.length} lines`);
  });
});

describe("the log of a hub", () => {
  it("keeps its last lines when it grows over 4 MiB", () => {
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

  it("drops all earlier lines if it is open only for writing", () => {
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
