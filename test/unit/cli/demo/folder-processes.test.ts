import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { processesIn } from "../../../../src/cli/demo/machines/folder-processes.js";
import { FakeProc } from "../../../support/fake-proc.js";

describe("processesIn", () => {
  it("finds this user's processes, and asks those of others nothing", () => {
    using proc = new FakeProc();
    const status = (uid: number) => `Name:\tnode\nUid:\t${uid}\t${uid}\t${uid}\t${uid}\n`;
    const own = process.getuid?.() ?? 0;
    proc.add(1, { status: status(own), cmdline: "node\0/demo/hub.js\0" });
    proc.add(2, { status: status(own), cmdline: "node\0/other/hub.js\0" });
    proc.addSilent(3, { status: status(own + 1) });
    assert.deepEqual(processesIn("/demo", proc.path), [{ pid: 1, command: "node /demo/hub.js " }]);
  });
});
