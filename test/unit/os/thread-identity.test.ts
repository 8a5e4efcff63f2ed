import assert from "node:assert/strict";
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Worker } from "node:worker_threads";
import {
  findThread,
  isThreadAlive,
  ownThread,
  type ThreadIdentity,
} from "../../../src/os/thread-identity.js";
import { soon, until } from "../../support/until.js";

const THREAD = new URL("./actors/tells-thread.js", import.meta.url);
const IN_NAMESPACE = [
  "--user",
  "--map-root-user",
  "--pid",
  "--fork",
  "--mount-proc",
  "--kill-child",
];

/** A worker thread of this process, with its identity. */
async function startThread(): Promise<{ worker: Worker; thread: ThreadIdentity }> {
  const worker = new Worker(THREAD);
  const told = new Promise<ThreadIdentity>((resolve) => worker.once("message", resolve));
  return { worker, thread: await soon("the thread reports its identity", told) };
}

describe("the identity of a thread", () => {
  it("is undefined in the main thread, which ends with its process", () => {
    assert.equal(ownThread(), undefined);
  });

  it("finds a worker thread while it runs", async () => {
    const { worker, thread } = await startThread();
    assert.notEqual(thread.tid, process.pid);
    assert.equal(findThread(process.pid, thread), thread.tid);
    assert.ok(isThreadAlive(process.pid, thread));
    await worker.terminate();
    await until("the thread is gone", () => !isThreadAlive(process.pid, thread));
    assert.equal(findThread(process.pid, thread), undefined);
  });

  it("differs for another thread with the same number", async () => {
    const { worker, thread } = await startThread();
    const later = { ...thread, startTicks: thread.startTicks + 1 };
    assert.ok(!isThreadAlive(process.pid, later));
    assert.equal(findThread(process.pid, later), undefined);
    await worker.terminate();
  });

  it("differs for a thread of another process", async () => {
    const { worker, thread } = await startThread();
    assert.equal(findThread(process.ppid, thread), undefined);
    assert.equal(findThread(0, thread), undefined);
    await worker.terminate();
  });

  const canUnshare = spawnSync("unshare", [...IN_NAMESPACE, "true"]).status === 0;
  const skip = !canUnshare && "no PID namespace can be made here";
  it("is found in another PID namespace, where it has another number", { skip }, async () => {
    const child = spawn("unshare", [...IN_NAMESPACE, process.execPath, fileURLToPath(THREAD)], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const closed = once(child, "close");
    try {
      const [line] = await soon(
        "the thread reports its identity",
        once(createInterface(child.stdout), "line"),
      );
      const thread = JSON.parse(line) as ThreadIdentity;
      const pid = Number(readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, "utf8"));
      const tid = findThread(pid, thread);
      assert.ok(tid !== undefined && tid !== thread.tid, `${tid}`);
      assert.ok(isThreadAlive(pid, { ...thread, tid }));
    } finally {
      child.kill("SIGKILL");
      await closed;
    }
  });
});
