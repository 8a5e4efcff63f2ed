import assert from "node:assert/strict";
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, it } from "node:test";
import {
  surroundingsOfProcess,
  surroundingsUnder,
} from "../../../../src/cli/doctor/surroundings.js";

describe("surroundings", () => {
  it("reads only below its root, and returns undefined for missing files", (t) => {
    const root = mkdtempSync(join(tmpdir(), "cuda-ipc-around-"));
    t.after(() => rmSync(root, { recursive: true, force: true }));
    mkdirSync(join(root, "proc"));
    writeFileSync(join(root, "proc/version"), "Linux\n");
    writeFileSync(join(root, "proc/model"), "NVIDIA Jetson\0");
    symlinkSync("pid:[1]", join(root, "proc/pid"));
    const around = surroundingsUnder(root, { SET: "1", EMPTY: "" });
    assert.deepEqual(
      [around.text("/proc/version"), around.text("/proc/model")],
      ["Linux", "NVIDIA Jetson"],
    );
    assert.equal(around.text("/proc/self/status"), undefined);
    assert.deepEqual(
      [around.link("/proc/pid"), around.link("/proc/version")],
      ["pid:[1]", undefined],
    );
    assert.deepEqual([around.exists("/proc"), around.exists("/etc")], [true, false]);
    assert.deepEqual(
      [around.variable("SET"), around.variable("EMPTY"), around.variable("NONE")],
      ["1", undefined, undefined],
    );
  });

  it("returns the space of a folder, and whether it is writable", () => {
    const around = surroundingsOfProcess();
    const here = around.space(tmpdir());
    assert.ok(here !== undefined && here.totalBytes >= here.freeBytes && here.writable);
    assert.equal(around.space("/nowhere/at/all"), undefined);
  });

  it("recognises a folder that is not writable", {
    skip: process.getuid?.() === 0 && "root may write all",
  }, (t) => {
    const root = mkdtempSync(join(tmpdir(), "cuda-ipc-around-"));
    t.after(() => rmSync(root, { recursive: true, force: true }));
    mkdirSync(join(root, "locked"), { mode: 0o500 });
    assert.equal(surroundingsUnder(root, {}).space("/locked")?.writable, false);
  });
});
