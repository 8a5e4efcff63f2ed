/** A hub and its keeper. Whichever is killed at any moment, no published object is lost. */
import assert from "node:assert/strict";
import { appendFileSync, existsSync, readFileSync, rmSync, statSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { stateOf, untilStopped } from "../../support/process-state.js";
import { keepersIn, killHub, TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";

const PRODUCES = new URL("../hub/actors/produces.js", import.meta.url);
const PINNED = { dtype: "int32", shape: [3], lifetime: "pinned" } as const;

/** Leaves a pinned array that no process holds. */
async function leavePinned(
  testHub: TestHub,
  name: string,
  values: readonly number[],
): Promise<void> {
  await using hub = await testHub.connect();
  using made = (await hub.create(name, PINNED)).expectDType("int32");
  await made.write(values);
  await made.publish();
}

async function read(hub: Hub, name: string): Promise<number[]> {
  using opened = (await hub.open(name, { wait: false })).expectDType("int32");
  return [...(await opened.read())];
}

async function keeperOf(hub: Hub): Promise<number> {
  const { keeper } = await hub.status();
  assert.ok(keeper !== null, "the hub has a keeper");
  return keeper.pid;
}

/** Kills the hub that serves now, and resolves with the number of the next one. */
async function killCurrent(hub: Hub): Promise<number> {
  const { pid } = await hub.status();
  process.kill(pid, "SIGKILL");
  return next(hub, pid);
}

async function next(hub: Hub, pid: number): Promise<number> {
  let now = pid;
  await until("the next hub answers", async () => {
    now = (await hub.status()).pid;
    return now !== pid;
  });
  return now;
}

async function newKeeper(hub: Hub, earlier: number): Promise<number> {
  let now: number | undefined;
  await until("another keeper is there", async () => {
    now = (await hub.status()).keeper?.pid;
    return now !== undefined && now !== earlier;
  });
  return now as number;
}

const logOf = (testHub: TestHub): string => readFileSync(`${testHub.socket}.log`, "utf8");

describe("a hub with a keeper", () => {
  checkLeaks();

  it("keeps names, leases and memory without holders when it is killed repeatedly", async () => {
    await using testHub = await TestHub.start();
    await leavePinned(testHub, "model", [1, 2, 3]);
    await using hub = await testHub.connect();
    using held = (await hub.create("held", { dtype: "int32", shape: [1] })).expectDType("int32");
    await held.publish();
    const keeper = await keeperOf(hub);
    const before = await hub.status();
    for (let count = 0; count < 3; count += 1) await killCurrent(hub);
    assert.deepEqual(await read(hub, "model"), [1, 2, 3]);
    const after = await hub.status();
    assert.deepEqual(
      [after.objects, after.leases, after.withoutMemory],
      [before.objects, before.leases, 0],
    );
    assert.equal(after.keeper?.pid, keeper);
    assert.equal(after.keeper?.descriptors, before.keeper?.descriptors, "nothing is kept twice");
    assert.deepEqual(after.lost, []);
  });

  it("starts another keeper with everything if its own is killed", async () => {
    await using testHub = await TestHub.start();
    await leavePinned(testHub, "model", [1, 2, 3]);
    await using hub = await testHub.connect();
    let keeper = await keeperOf(hub);
    for (let count = 0; count < 3; count += 1) {
      process.kill(keeper, "SIGKILL");
      keeper = await newKeeper(hub, keeper);
      await killCurrent(hub);
      assert.deepEqual(await read(hub, "model"), [1, 2, 3]);
    }
  });

  it("kills a stopped keeper that takes nothing, and goes on meanwhile", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const keeper = await keeperOf(hub);
    process.kill(keeper, "SIGSTOP");
    // More than the socket between hub and keeper holds.
    const arrays = [];
    for (let index = 0; index < 600; index += 1) arrays.push(await hub.create(`a${index}`, PINNED));
    for (const array of arrays) await array.publish();
    // WHY: what the hub sends meanwhile must not count as a sign of life of the keeper.
    let isReplaced = false;
    const storing = (async () => {
      while (!isReplaced) (await hub.create("more", { dtype: "int32", shape: [3] })).close();
    })();
    const other = await newKeeper(hub, keeper);
    isReplaced = true;
    await storing;
    assert.notEqual(other, keeper);
    await until(
      "the other has all of them",
      async () => ((await hub.status()).keeper?.descriptors ?? 0) > 600,
    );
    for (const array of arrays) array.close();
    await killCurrent(hub);
    assert.equal((await hub.status()).objects, 600);
  });

  it("is named by clients if it is stopped while the hub ends", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const keeper = await keeperOf(hub);
    const { pid } = await hub.status();
    process.kill(keeper, "SIGSTOP");
    try {
      await untilStopped(keeper);
      process.kill(pid, "SIGKILL");
      await until("the hub has ended", () => [undefined, "Z"].includes(stateOf(pid)));
      const words = new RegExp(
        `the last hub \\(process ${pid}\\) has ended, and its keeper, which has the lock, starts no other`,
      );
      const named = { code: "TIMEOUT", message: words };
      await assert.rejects(hub.list({ timeoutMs: 500 }), named);
      await assert.rejects(testHub.connect({ timeoutMs: 500 }), named);
    } finally {
      process.kill(keeper, "SIGCONT");
    }
    assert.notEqual(await next(hub, pid), pid);
  });

  it("names lost objects if hub and keeper die together, until the name is reused", async () => {
    await using testHub = await TestHub.start();
    await leavePinned(testHub, "model", [1, 2, 3]);
    await killHub(testHub.folder.path);
    await using hub = await testHub.connect({ start: true, hubIdleMs: 60_000 });
    const { lost, objects } = await hub.status();
    assert.equal(objects, 0);
    assert.deepEqual(
      lost.map(({ name, byteLength, device, ownerPid }) => [name, byteLength, device, ownerPid]),
      [["model", 4096, "host", process.pid]],
    );
    assert.match(
      logOf(testHub),
      /lost "model": 4 KiB on host, made by process \d+ of user \d+: hub and keeper ended/,
    );
    for (const ask of [() => hub.open("model", { wait: false }), () => hub.inspect("model")]) {
      await assert.rejects(
        ask(),
        (error) => hasCode(error, "NOT_FOUND") && /"model": it was lost at /.test(error.message),
      );
    }
    using again = await hub.create("model", PINNED);
    assert.deepEqual((await hub.status()).lost, []);
    await again.publish();
  });

  it("ends with its keeper when it is stopped or idle", async () => {
    for (const end of ["stop", "idle"] as const) {
      await using folder = new TestFolder();
      const { socket } = folder;
      const hub = await connect({ socket, device: "host", reconnect: false, hubIdleMs: 500 });
      const { pid } = await hub.status();
      await keeperOf(hub);
      if (end === "stop") await hub.stop({ force: true });
      await hub.close().catch(() => {});
      await until("the hub ends", () => stateOf(pid) === undefined);
      await until("the keeper ends", () => keepersIn(folder.path).length === 0);
      assert.equal(existsSync(socket), false);
    }
  });

  it("is restarted with growing pauses if it cannot serve, and keeps everything", async () => {
    await using testHub = await TestHub.start();
    await leavePinned(testHub, "model", [1, 2, 3]);
    await using hub = await testHub.connect();
    const { pid } = await hub.status();
    // Replaces the journal by one that no hub can read.
    const fs = await import("node:fs");
    const journal = `${testHub.socket}.journal`;
    fs.renameSync(journal, `${journal}.away`);
    fs.mkdirSync(journal);
    process.kill(pid, "SIGKILL");
    await until(
      "several have failed",
      () => (logOf(testHub).match(/the hub has ended/g) ?? []).length >= 4,
    );
    const pauses = [...logOf(testHub).matchAll(/the next one in (\d+) ms/g)].map(([, ms]) =>
      Number(ms),
    );
    assert.ok((pauses.at(-1) ?? 0) > (pauses[0] ?? 0), `${pauses}`);
    fs.rmdirSync(journal);
    fs.renameSync(`${journal}.away`, journal);
    await next(hub, pid);
    assert.deepEqual(await read(hub, "model"), [1, 2, 3]);
  });

  it("appends to the log after a crash, and keeps its last lines if it is long", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await killCurrent(hub);
    const path = `${testHub.socket}.log`;
    appendFileSync(path, "an earlier line\n".repeat(300_000));
    // Makes the hub write to its log.
    rmSync(`${testHub.socket}.lock`);
    await until("it is said behind the last lines", () => {
      return /an earlier line\n.*Z {2}the lock .* is made again/.test(logOf(testHub));
    });
    assert.match(logOf(testHub), /^\(earlier lines were dropped\)\nan earlier line\n/);
    assert.ok(statSync(path).size < 2 ** 21);
  });

  it("ends for good with its keeper if its folder is removed", async () => {
    const testHub = await TestHub.start();
    const folder = testHub.folder.path;
    await using hub = await testHub.connect({ reconnect: false });
    await keeperOf(hub);
    testHub.folder[Symbol.dispose]();
    testHub.kill("SIGKILL");
    await testHub.exited();
    await until("the keeper ends", () => keepersIn(folder).length === 0);
  });

  it("knows the clients of the earlier hub by their pids, and notices their ends", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const args = [testHub.socket, "frame", "held", "publish", "10"];
    await using actor = new Actor(PRODUCES, { args });
    await actor.says();
    await using stopped = new Actor(PRODUCES, {
      args: [testHub.socket, "other", "held", "publish", "10"],
    });
    await stopped.says();
    stopped.kill("SIGSTOP");
    const { keeper } = await hub.status();
    // The lock, the listener, two arrays, and the two of three processes that hold something.
    assert.equal(keeper?.descriptors, 6);
    await killCurrent(hub);
    assert.equal((await hub.status()).objects, 2);
    stopped.kill("SIGKILL");
    actor.kill("SIGKILL");
    await until("their ends are noticed", async () => (await hub.status()).objects === 0);
    await until(
      "nothing more is kept of them",
      async () => (await hub.status()).keeper?.descriptors === 2,
    );
  });

  it("restarts on request without an error in any client, and keeps all leases", async () => {
    await using testHub = await TestHub.start();
    await leavePinned(testHub, "model", [1, 2, 3]);
    await using hub = await testHub.connect();
    await using other = await testHub.connect();
    using held = (await hub.create("held", { dtype: "int32", shape: [1] })).expectDType("int32");
    await held.publish();
    using _open = await other.open("held");
    const before = await hub.status();
    let ended = false;
    const work = (async () => {
      let rounds = 0;
      for (; !ended; rounds += 1) {
        using made = await other.create(`work-${rounds}`, { dtype: "int32", shape: [1] });
        await made.publish();
        (await hub.open(`work-${rounds}`)).close();
      }
      return rounds;
    })();
    work.catch(() => {});
    for (let count = 0; count < 3; count += 1) {
      const { instance } = await hub.status();
      const after = await hub.restart();
      assert.notEqual(after.instance, instance);
    }
    ended = true;
    assert.ok((await soon("the work is done", work)) > 0);
    assert.deepEqual(await read(hub, "model"), [1, 2, 3]);
    await until("leases are as before", async () => (await hub.status()).leases === before.leases);
    assert.equal((await hub.status()).objects, before.objects);
    assert.equal((await hub.status()).keeper?.pid, before.keeper?.pid);
  });
});
