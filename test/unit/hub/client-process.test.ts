import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { findClientProcess } from "../../../src/hub/client-process.js";
import { pidfdInode } from "../../../src/os/pidfd-inode.js";
import { identityOf, ownIdentity } from "../../../src/os/process-identity.js";
import { openPidfd } from "../../../src/os/process-watch.js";
import { peerOf } from "../../support/core-rig.js";
import { checkLeaks } from "../../support/leak-check.js";

const { pidNamespace } = ownIdentity();

function inodeOf(pid: number): string {
  const pidfd = openPidfd(pid);
  assert.ok(pidfd !== undefined);
  try {
    return pidfdInode(pidfd) ?? "none";
  } finally {
    pidfd.close();
  }
}

describe("findClientProcess", () => {
  checkLeaks();

  it("finds a process by its number and either proof, and no later one of that number", async () => {
    const child = spawn("sleep", ["1000"], { stdio: "ignore" });
    const pid = child.pid as number;
    const startTicks = identityOf(pid)?.startTicks ?? null;
    const inode = inodeOf(pid);
    const isFound = (changes: object) => {
      const found = findClientProcess(peerOf(pid, { pidNamespace, startTicks: null, ...changes }));
      if (typeof found === "string") return found;
      found.close();
      return "found";
    };
    assert.equal(isFound({ startTicks }), "found");
    assert.equal(isFound({ startTicks: 1 }), "gone");
    assert.equal(isFound({}), "gone");
    if (inode !== "none") {
      assert.equal(isFound({ pidfdInode: inode }), "found", "also if /proc does not show its start (hidepid)");
      assert.equal(isFound({ pidfdInode: "1" }), "gone");
    }
    const closed = once(child, "close");
    child.kill("SIGKILL");
    await closed;
    assert.deepEqual([isFound({ startTicks }), isFound({ pidfdInode: inode })], ["gone", "gone"]);
  });

  it("says of a process whose number counts elsewhere that it is unseen, unless it could never prove who it is", () => {
    const elsewhere = { pidNamespace: pidNamespace + 1 };
    assert.equal(findClientProcess(peerOf(process.pid, { ...elsewhere, pidfdInode: "4711" })), "unseen");
    assert.equal(findClientProcess(peerOf(0, { pidNamespace, startTicks: null, pidfdInode: "4711" })), "unseen");
    assert.equal(findClientProcess(peerOf(0, { pidNamespace, startTicks: null })), "gone");
  });
});

describe("the inode of a pidfd", () => {
  it("is the same for each pidfd of a process, and of no other process", (t) => {
    const own = inodeOf(process.pid);
    if (own === "none") return t.skip("this kernel has no pidfs (Linux 6.9)");
    assert.equal(inodeOf(process.pid), own);
    assert.notEqual(inodeOf(process.ppid), own);
  });
});
