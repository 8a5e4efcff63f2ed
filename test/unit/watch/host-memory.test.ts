import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { hostMemory } from "../../../src/watch/host-memory.js";
import { TestFolder } from "../../support/test-folder.js";

describe("hostMemory", () => {
  it("has the total, and what is not available as used", () => {
    using folder = new TestFolder();
    const path = folder.file("meminfo");
    writeFileSync(path, "MemTotal:       2048 kB\nMemFree:   1 kB\nMemAvailable:    512 kB\n");
    assert.deepEqual(hostMemory(path), { totalBytes: 2048 * 1024, usedBytes: 1536 * 1024 });
    writeFileSync(path, "MemTotal:       2048 kB\n");
    assert.equal(hostMemory(path), undefined);
    assert.equal(hostMemory(folder.file("absent")), undefined);
  });

  it("knows this machine", () => {
    const { totalBytes = 0, usedBytes = 0 } = hostMemory() ?? {};
    assert.ok(usedBytes > 0 && totalBytes > usedBytes);
  });
});
