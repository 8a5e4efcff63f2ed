import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CommandReader } from "../../../src/os/command-reader.js";
import { FakeProc } from "../../support/fake-proc.js";

/** WHY no limit: a busy machine may take long to start a child. */
const limitMs = 2 ** 31 - 1;

describe("CommandReader", () => {
  it("reads the command line of a process", async () => {
    const { texts } = await new CommandReader({ limitMs }).read([process.pid]);
    assert.match(texts[0] ?? "", /node/);
  });

  it("reads several, in their order, and leaves out those that have ended", async () => {
    using proc = new FakeProc();
    proc.add(1, { cmdline: "one\0--fast\0" });
    proc.add(3, { cmdline: "" });
    proc.add(4, { cmdline: `${"x".repeat(300_000)}\0end` });
    proc.add(5, { cmdline: "five\0" });
    const reader = new CommandReader({ proc: proc.path, limitMs });
    assert.deepEqual(await reader.read([1, 2, 3, 4, 5]), {
      texts: ["one --fast", undefined, undefined, "x".repeat(1024), "five"],
      isLate: false,
    });
    assert.equal(reader.isBusy, false);
  });

  it("gives up a process that does not answer, and reads the others later", async () => {
    using proc = new FakeProc();
    proc.add(1, { cmdline: "one\0" });
    proc.addSilent(2);
    proc.add(3, { cmdline: "three\0" });
    const reader = new CommandReader({ proc: proc.path, limitMs });
    const lines = reader.read([1, 2, 3]);
    await proc.isAsked(2);
    assert.equal(reader.isBusy, true);
    reader.giveUp();
    assert.deepEqual(await lines, { texts: ["one", undefined], isLate: true });
    assert.equal(reader.isBusy, false);
    assert.deepEqual(await reader.read([3]), { texts: ["three"], isLate: false });
  });

  it("gives up by itself", async () => {
    using proc = new FakeProc();
    proc.addSilent(2);
    const reader = new CommandReader({ proc: proc.path, limitMs: 50 });
    assert.deepEqual(await reader.read([2]), { texts: [undefined], isLate: true });
  });

  it("knows nothing if there is no program to read with", async () => {
    const { PATH } = process.env;
    process.env.PATH = "/nowhere";
    try {
      const reader = new CommandReader({ limitMs });
      const lines = await reader.read([process.pid, 1]);
      assert.deepEqual(lines, { texts: [undefined, undefined], isLate: false });
      assert.equal(reader.isBusy, false);
    } finally {
      process.env.PATH = PATH;
    }
  });
});
