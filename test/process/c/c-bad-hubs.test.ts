/** The client in C at hubs that are old, new, silent or hostile, or that are not there. */
import assert from "node:assert/strict";
import { chmodSync, rmSync, writeFileSync } from "node:fs";
import { before, describe, it } from "node:test";
import { tryLockPath } from "../../../src/os/file-lock.js";
import { HostileHub } from "../../support/hostile-hub.js";
import { stateOf, untilStopped } from "../../support/process-state.js";
import { nightly, Random, seedOfRun } from "../../support/random.js";
import { obliging, ScriptedHub } from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { CPrograms, skip } from "./c-programs.js";

describe("the client in C, at a hub that is not as it should be", { skip }, () => {
  let programs: CPrograms;

  before(() => {
    programs = new CPrograms();
  });

  for (const [age, version] of Object.entries({ older: 0, newer: 2 })) {
    it(`says PROTOCOL_MISMATCH to an ${age} one`.replace("an newer", "a newer"), async () => {
      using folder = new TestFolder();
      using _hub = new ScriptedHub(folder.socket, ({ id }, connection) => {
        connection.sendText(JSON.stringify({ v: version, id, ok: true, result: {} }));
        return undefined;
      });
      await using peer = programs.peer(folder.socket, "lists");
      assert.match(await peer.errors(), new RegExp(`PROTOCOL_MISMATCH.*speaks version ${version}`));
    });
  }

  it("passes on what a newer hub says about its version", async () => {
    using folder = new TestFolder();
    using _hub = new ScriptedHub(folder.socket, () => ({ code: "PROTOCOL_MISMATCH" }));
    await using peer = programs.peer(folder.socket, "lists");
    assert.match(await peer.errors(), /^error\[PROTOCOL_MISMATCH\]/);
  });

  it("says HUB_UNAVAILABLE if none runs", async () => {
    using folder = new TestFolder();
    await using peer = programs.peer(folder.socket, "lists");
    assert.match(await peer.errors(), /^error\[HUB_UNAVAILABLE\].*`cuda-ipc hub serve`/);
  });

  it("finds a hub that lost its folder", async () => {
    await using own = await TestHub.start();
    await using client = await own.connect();
    own.kill("SIGSTOP");
    await untilStopped(own.pid);
    rmSync(own.folder.path, { recursive: true });
    writeFileSync(own.folder.path, "in the way of a folder");
    own.kill("SIGCONT");
    await until("the hub knows", async () => (await client.status()).troubles.length > 0);
    await using peer = programs.peer(own.socket, "lists");
    assert.deepEqual(await peer.said(), []);
    await peer.finish();
    rmSync(own.folder.path);
    await until("the hub is well", async () => (await client.status()).troubles.length === 0);
  });

  it("waits for a hub that has not noticed yet that its folder was removed", async () => {
    await using own = await TestHub.start();
    await using _ = await own.connect();
    own.kill("SIGSTOP");
    rmSync(own.folder.path, { recursive: true });
    await using peer = programs.peer(own.socket, "lists");
    await until("it waits, or has given up", () => /[SZ]/.test(stateOf(peer.pid) ?? "Z"));
    own.kill("SIGCONT");
    assert.deepEqual(await peer.said(), []);
    await peer.finish();
  });

  it("waits for a hub that has its lock and does not listen yet", async () => {
    using folder = new TestFolder();
    const lock = tryLockPath(`${folder.socket}.lock`);
    await using peer = programs.peer(folder.socket, "lists");
    await until("it waits, or has given up", () => /[SZ]/.test(stateOf(peer.pid) ?? "Z"));
    using _hub = new ScriptedHub(folder.socket, obliging());
    assert.deepEqual(await peer.said(), []);
    await peer.finish();
    lock?.close();
  });

  it("refuses a URL instead of a path", async () => {
    await using peer = programs.peer("tcp://10.0.0.1:7000", "lists");
    assert.match(await peer.errors(), /^error\[UNSUPPORTED\].*tcp:.*it is a URL/);
  });

  it("does not trust a folder to which others can write", async () => {
    await using own = await TestHub.start();
    chmodSync(own.folder.path, 0o777);
    await using peer = programs.peer(own.socket, "lists");
    assert.match(await peer.errors(), /^error\[UNSAFE_RUNTIME_DIR\].*mode 777/);
    chmodSync(own.folder.path, 0o700);
  });

  it("connects again while a hub hangs up without a word", async () => {
    using folder = new TestFolder();
    let refusals = 3;
    const script = obliging();
    using _hub = new ScriptedHub(folder.socket, (request, connection) => {
      if (request.op === "hello" && refusals-- > 0) return "hang up";
      return script(request, connection);
    });
    await using peer = programs.peer(folder.socket, "lists");
    assert.deepEqual(await peer.said(), []);
    await peer.finish();
  });

  it("survives answers in bad faith, without a leak or a wrong access", async (test) => {
    const seed = seedOfRun();
    test.diagnostic(`seed ${seed}, sanitizers: ${programs.sanitized}`);
    using folder = new TestFolder();
    using hostile = new HostileHub(folder.socket, new Random(seed));
    for (const malice of [0, 0.02, 0.1, 0.5]) {
      hostile.malice = malice;
      await using peer = programs.peer(folder.socket, "tries", nightly ? "2000" : "60");
      const succeeded = Number(await peer.said());
      assert.ok(malice > 0.1 || succeeded > 0, `malice ${malice}`);
      await peer.finish();
    }
  });
});
