import assert from "node:assert/strict";
import { describe, it, mock } from "node:test";
import { LimitedLog } from "../../../src/hub/limited-log.js";

describe("LimitedLog", () => {
  it("writes the first lines of a kind, and then one for all others of an interval", () => {
    mock.timers.enable({ apis: ["setTimeout"] });
    try {
      const lines: string[] = [];
      const { log } = new LimitedLog((line) => lines.push(line));
      for (let pid = 1; pid <= 1000; pid += 1) log(`refused process ${pid} of "frame-${pid}"`);
      assert.equal(lines.length, 5);
      mock.timers.tick(10_000);
      assert.deepEqual(lines.slice(5), ['995 more like this, the last of them: refused process 1000 of "frame-1000"']);
      log("refused process 7");
      mock.timers.tick(10_000);
      assert.equal(lines.length, 7, "the next interval begins anew");
    } finally {
      mock.timers.reset();
    }
  });

  it("has lines of its own for each user", () => {
    const lines: string[] = [];
    const limited = new LimitedLog((line) => lines.push(line));
    for (let count = 0; count < 100; count += 1) limited.log("Cannot serve user 12");
    limited.log("Cannot serve user 13");
    assert.equal(lines.at(-1), "Cannot serve user 13");
    limited.flush();
  });

  it("stays small whatever kinds there are", () => {
    const lines: string[] = [];
    const limited = new LimitedLog((line) => lines.push(line));
    for (let count = 0; count < 100_000; count += 1) limited.log(`kind ${"x".repeat(count % 1000)}`);
    assert.ok(lines.length <= 505, `${lines.length} lines`);
    limited.flush();
    assert.ok(lines.length <= 606, `${lines.length} lines`);
  });
});
