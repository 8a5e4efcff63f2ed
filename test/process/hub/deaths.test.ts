import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { SeqpacketSocket } from "../../../src/os/seqpacket.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { endHub } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";

const PRODUCES = new URL("./actors/produces.js", import.meta.url);
const CONSUMES = new URL("./actors/consumes.js", import.meta.url);

async function producer(
  testHub: TestHub,
  name: string,
  lifetime: string,
  stage: string,
): Promise<Actor> {
  const actor = new Actor(PRODUCES, { args: [testHub.socket, name, lifetime, stage, "1000"] });
  await actor.says();
  return actor;
}

async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
}

describe("a producer that is killed", () => {
  checkLeaks();

  for (const lifetime of ["held", "pinned"]) {
    it(`before publishing removes its name (${lifetime})`, async () => {
      await using testHub = await TestHub.start();
      await using hub = await testHub.connect();
      await using actor = await producer(testHub, "frame", lifetime, "create");
      const fds = testHub.fdCount();
      assert.equal((await hub.list()).length, 1);
      await kill(actor);
      await until("the name is gone", async () => (await hub.list()).length === 0);
      await until("its descriptors are closed", () => testHub.fdCount() < fds);
      const { leases, objects, clients } = await hub.status();
      assert.deepEqual({ leases, objects, clients }, { leases: 0, objects: 0, clients: 1 });
    });
  }

  it("after publishing leaves the memory to its readers until the last one closes", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using actor = await producer(testHub, "frame", "held", "publish");
    using array = (await hub.open("frame")).expectDType("float32");
    await kill(actor);
    await until("the owner's lease has ended", async () => (await hub.status()).leases === 1);
    assert.equal((await array.read())[999], 1099);
    using again = (await hub.open("frame", { wait: false })).expectDType("float32");
    assert.equal((await again.read())[0], 100);
    again.close();
    array.close();
    assert.deepEqual(await hub.list(), []);
  });

  it("leaves pinned objects to later readers", async () => {
    await using testHub = await TestHub.start();
    await using actor = await producer(testHub, "frame", "pinned", "publish");
    await kill(actor);
    await using hub = await testHub.connect();
    await until("its lease has ended", async () => (await hub.status()).leases === 0);
    using array = (await hub.open("frame")).expectDType("float32");
    assert.equal((await array.read())[999], 1099);
    array.close();
    assert.equal((await hub.list()).length, 1);
    await hub.remove("frame");
    assert.equal((await hub.status()).objects, 0);
  });
});

describe("a consumer that is killed", () => {
  checkLeaks();

  it("releases its leases", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using array = await hub.create("frame", { dtype: "float32", shape: [1000] });
    await array.publish();
    await using actor = new Actor(CONSUMES, { args: [testHub.socket, "frame"] });
    await actor.says();
    const { leases, clients } = await hub.status();
    assert.deepEqual({ leases, clients }, { leases: 2, clients: 2 });
    await kill(actor);
    await until("its lease has ended", async () => (await hub.status()).leases === 1);
    assert.equal((await hub.status()).clients, 1);
  });

  it("while it waits leaves no wait on the hub", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using actor = new Actor(CONSUMES, { args: [testHub.socket, "never"] });
    await until("it waits", async () => (await hub.status()).waitingOpens === 1);
    await kill(actor);
    await until("it waits no longer", async () => (await hub.status()).waitingOpens === 0);
  });
});

describe("a client that is stopped", () => {
  checkLeaks();

  it("delays no other process, and goes on when it is continued", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using actor = await producer(testHub, "frame", "held", "publish");
    actor.kill("SIGSTOP");
    using array = (await hub.open("frame")).expectDType("float32");
    assert.equal((await array.read())[0], 100);
    using other = await hub.create("other", { dtype: "int32", shape: [1] });
    await other.publish();
    assert.equal((await hub.status()).clients, 2);
    actor.kill("SIGCONT");
    actor.goOn();
    assert.equal(await actor.exited(), 0);
  });
});

describe("a killed hub, for clients that do not reconnect", () => {
  checkLeaks();

  it("leaves clients their mappings, notifies them, and can be replaced", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect({ reconnect: false });
    using made = (await hub.create("frame", { dtype: "int32", shape: [3] })).expectDType("int32");
    await made.write([1, 2, 3]);
    await made.publish();
    using array = (await hub.open("frame", { access: "read-write" })).expectDType("int32");
    const told = new Promise((resolve) => hub.onEnd(resolve));
    const waiting = hub.open("never");
    testHub.kill("SIGKILL");
    await assert.rejects(waiting, (error) => hasCode(error, "HUB_GONE"));
    assert.ok(hasCode(await soon("the end is told", told), "HUB_GONE"));
    await assert.rejects(hub.status(), (error) => hasCode(error, "HUB_GONE"));
    await assert.rejects(made.publish(), (error) => hasCode(error, "HUB_GONE"));
    assert.deepEqual([...(await made.read())], [1, 2, 3]);
    await array.write([4, 5, 6]);
    assert.deepEqual([...(await made.read())], [4, 5, 6]);
    await testHub.exited();
    assert.ok(existsSync(testHub.socket), "the socket is still there");

    await using next = await connect({ socket: testHub.socket, device: "host", hubIdleMs: 60_000 });
    const { pid, objects, withoutMemory } = await next.status();
    assert.notEqual(pid, testHub.pid);
    assert.deepEqual([objects, withoutMemory], [1, 0], "the object is known, with its memory");
  });

  it("causes HUB_GONE even before its clients have noticed", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect({ reconnect: false });
    endHub(testHub.folder.path);
    // WHY a busy loop: the event loop must not run between the hub's end and the request.
    while (listens(testHub.socket));
    await assert.rejects(hub.status(), (error) => hasCode(error, "HUB_GONE"));
  });

  function listens(socketPath: string): boolean {
    try {
      SeqpacketSocket.connect(socketPath).close();
      return true;
    } catch {
      return false;
    }
  }
});
