import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { describe, it } from "node:test";
import { findClientProcess } from "../../../../src/hub/connections/client-process.js";
import { identityOf, ownIdentity } from "../../../../src/os/process-identity.js";
import { openPidfd, pidfdInode } from "../../../../src/os/process-watch.js";
import { peerOf } from "../../../support/core-rig.js";
import { checkLeaks } from "../../../support/leak-check.js";

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

  it("finds a process by its number with either proof, and no later process with that number", async () => {
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
      assert.equal(
        isFound({ pidfdInode: inode }),
        "found",
        "also if /proc does not show its start (hidepid)",
      );
      assert.equal(isFound({ pidfdInode: "1" }), "gone");
    }
    const closed = once(child, "close");
    child.kill("SIGKILL");
    await closed;
    assert.deepEqual([isFound({ startTicks }), isFound({ pidfdInode: inode })], ["gone", "gone"]);
  });

  it('returns "unseen" for a process of another PID namespace, and "gone" if it could never prove its identity', () => {
    const elsewhere = { pidNamespace: pidNamespace + 1 };
    assert.equal(
      findClientProcess(peerOf(process.pid, { ...elsewhere, pidfdInode: "4711" })),
      "unseen",
    );
    assert.equal(
      findClientProcess(peerOf(0, { pidNamespace, startTicks: null, pidfdInode: "4711" })),
      "unseen",
    );
    assert.equal(findClientProcess(peerOf(0, { pidNamespace, startTicks: null })), "gone");
  });
});

describe("the inode of a pidfd", () => {
  it("is the same for all pidfds of one process, and differs between processes", (t) => {
    const own = inodeOf(process.pid);
    if (own === "none") return t.skip("this kernel has no pidfs (Linux 6.9)");
    assert.equal(inodeOf(process.pid), own);
    assert.notEqual(inodeOf(process.ppid), own);
  });
});
