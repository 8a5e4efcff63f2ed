/**
 * Clients whose hub is killed, cut off or stopped: what they find at the next hub, and which
 * process restores it.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import type { Hub } from "../../../src/client/hub.js";
import { Device } from "../../../src/gpu/device.js";
import { MemoryPool } from "../../../src/gpu/memory/memory-pool.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { cutSocketsSince, ownSockets } from "../../support/own-sockets.js";
import { obliging, type Script, ScriptedHub } from "../../support/scripted-hub.js";
import { TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";

const PRODUCES = new URL("./actors/produces.js", import.meta.url);
const CONSUMES = new URL("./actors/consumes.js", import.meta.url);
const OWNS = new URL("./actors/owns-timeline.js", import.meta.url);
const UNREFERENCED = new URL("./actors/joins-unreferenced.js", import.meta.url);
const ITEM = { dtype: "int32", shape: [3] } as const;

/** A client that starts the next hub. */
const STARTS = { start: true, hubIdleMs: 60_000 };

function reconnected(hub: Hub): Promise<{ resumed: boolean }> {
  return soon("it comes back", new Promise((resolve) => hub.onReconnect(resolve)));
}

async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
}

/** Kills the hub and waits until the clients are at the next one. */
async function restart(testHub: TestHub, ...clients: Hub[]): Promise<void> {
  const back = clients.map(reconnected);
  testHub.kill("SIGKILL");
  for (const event of await Promise.all(back)) assert.deepEqual(event, { resumed: true });
}

describe("a hub that is killed", () => {
  checkLeaks();

  it("is followed by one with the same names, numbers, leases, memory and timelines", async () => {
    await using testHub = await TestHub.start();
    await using owner = await testHub.connect(STARTS);
    await using reader = await testHub.connect();
    using held = await owner.create("held", ITEM);
    await held.write([1, 2, 3]);
    await held.publish();
    using pinned = await owner.create("pinned", { ...ITEM, lifetime: "pinned" });
    await pinned.write([4, 5, 6]);
    await pinned.publish();
    using bundle = await owner.createBundle(
      "bundle",
      { a: ITEM, b: ITEM },
      { metadata: { unit: "m" } },
    );
    await bundle.array("b").write([7, 8, 9]);
    await bundle.publish();
    using timeline = await owner.createTimeline("steps");
    using unpublished = await owner.create("unpublished", ITEM);
    using read = (await reader.open("held", { access: "read-write" })).expectDType("int32");
    using steps = await reader.openTimeline("steps");
    const [objects, { leases }] = [await reader.list(), await reader.status()];
    await restart(testHub, owner, reader);

    assert.deepEqual(await reader.list(), objects);
    const status = await reader.status();
    assert.notEqual(status.pid, testHub.pid);
    assert.deepEqual(
      [status.leases, status.withoutMemory, status.clients, status.detached],
      [leases, 0, 2, 0],
    );
    await read.write([10, 11, 12]);
    await using third = await testHub.connect();
    using again = (await third.open("held", { access: "read-write" })).expectDType("int32");
    assert.deepEqual([...(await again.read())], [10, 11, 12]);
    using other = (await third.open("pinned")).expectDType("int32");
    assert.deepEqual([...(await other.read())], [4, 5, 6]);
    using whole = await third.openBundle("bundle");
    assert.deepEqual(
      [whole.metadata, [...(await whole.array("b").expectDType("int32").read())]],
      [{ unit: "m" }, [7, 8, 9]],
    );
    using theirs = await third.openTimeline("steps");
    timeline.signal(5);
    await Promise.all([theirs.wait(5), steps.wait(5)]);
    const opening = third.open("unpublished");
    await unpublished.publish();
    (await opening).close();
    assert.equal(held.object, objects[1]?.object);
  });

  it("keeps memory of a pool shared", async () => {
    await using testHub = await TestHub.start();
    using device = Device.open("host");
    using pool = MemoryPool.create(device, { maxBytes: 1024 * 1024, shared: true });
    await using owner = await testHub.connect(STARTS);
    using array = await owner.create("pooled", { dtype: "float32", shape: [3], pool });
    await array.write([1, 2, 3]);
    await array.publish();
    await restart(testHub, owner);
    await using third = new Actor(CONSUMES, { args: [testHub.socket, "pooled"] });
    const bits = Buffer.from(Float32Array.of(1, 2, 3).buffer).toString("base64");
    assert.deepEqual(await third.says(), { bits });
  });

  it("delays earlier requests and new ones until the next hub answers", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect(STARTS);
    await using reader = await testHub.connect();
    const opening = reader.open("frame");
    await until("it waits", async () => (await hub.status()).waitingOpens === 1);
    testHub.kill("SIGKILL");
    await testHub.exited();
    using frame = await hub.create("frame", ITEM);
    await frame.publish();
    (await opening).close();
    await until("the owner's lease alone is left", async () => (await hub.status()).leases === 1);
  });

  it("gets published memory from a reader if the owner is dead", async () => {
    await using testHub = await TestHub.start();
    await using reader = await testHub.connect(STARTS);
    await using actor = new Actor(PRODUCES, {
      args: [testHub.socket, "frame", "held", "publish", "1000"],
    });
    await actor.says();
    using array = (await reader.open("frame")).expectDType("float32");
    await kill(actor);
    await until("the owner's lease has ended", async () => (await reader.status()).leases === 1);
    await restart(testHub, reader);
    await using third = await testHub.connect();
    using read = (await third.open("frame")).expectDType("float32");
    assert.equal((await read.read())[999], 1099);
    using written = (await third.open("frame", { access: "read-write" })).expectDType("float32");
    await written.write(new Float32Array(1000).fill(7));
    assert.equal((await array.read())[999], 7);
  });

  it("is followed by one that ends the objects of an owner killed with it", async () => {
    await using testHub = await TestHub.start();
    await using reader = await testHub.connect(STARTS);
    await using owner = new Actor(OWNS, { args: [testHub.socket, "steps", "41"] });
    await using producer = new Actor(PRODUCES, {
      args: [testHub.socket, "frame", "held", "create", "10"],
    });
    await Promise.all([owner.says(), producer.says()]);
    using steps = await reader.openTimeline("steps");
    const waiting = assert.rejects(steps.wait(42), (error) => hasCode(error, "PEER_GONE"));
    const back = reconnected(reader);
    // WHY stopped first: the hub must not live to see the others end.
    testHub.kill("SIGSTOP");
    await Promise.all([kill(owner), kill(producer)]);
    testHub.kill("SIGKILL");
    await soon("the wait is over", waiting);
    assert.deepEqual(await back, { resumed: true });
    await until("nothing has a name", async () => (await reader.list()).length === 0);
    steps.close();
    assert.equal((await reader.status()).objects, 0);
  });

  it("does not get back objects that were closed while no hub ran", async () => {
    await using testHub = await TestHub.start();
    await using owner = await testHub.connect(STARTS);
    using kept = await owner.create("kept", ITEM);
    const closed = await owner.create("closed", ITEM);
    const left = await testHub.connect();
    const theirs = await left.create("theirs", ITEM);
    const back = reconnected(owner);
    testHub.kill("SIGKILL");
    await testHub.exited();
    closed.close();
    await back;
    theirs.close();
    await left.close();
    await until("that is all", async () => (await owner.status()).clients === 1);
    assert.deepEqual(
      (await owner.list()).map(({ object }) => object),
      [kept.object],
    );
  });

  it("does not keep an unreferenced client alive that looks for the next hub", async () => {
    await using testHub = await TestHub.start();
    await using actor = new Actor(UNREFERENCED, { args: [testHub.socket] });
    await actor.says();
    testHub.kill("SIGKILL");
    await testHub.exited();
    actor.goOn();
    assert.equal(await actor.exited(), 0);
  });

  it("does not keep a client alive that is unreferenced while the next hub is silent", async () => {
    using folder = new TestFolder();
    let greetings = 0;
    const grants = obliging();
    const hello: Script = (request, connection) => {
      greetings += 1;
      return greetings === 1 ? grants(request, connection) : undefined;
    };
    using scripted = new ScriptedHub(folder.socket, obliging({ hello }));
    await using actor = new Actor(UNREFERENCED, { args: [folder.socket, "late"] });
    await actor.says();
    scripted.latest.hangUp();
    await scripted.heard("hello", 2);
    actor.goOn();
    assert.equal(await actor.exited(), 0);
  });
});

describe("a connection that is cut", () => {
  checkLeaks();

  it("is followed by another to the same hub, and nothing is lost", async () => {
    await using testHub = await TestHub.start();
    const sockets = ownSockets();
    await using hub = await testHub.connect();
    using array = await hub.create("frame", ITEM);
    await array.publish();
    using read = await hub.open("frame");
    const opening = hub.open("later");
    const before = await hub.inspect("frame");
    const back = reconnected(hub);
    assert.equal(cutSocketsSince(sockets), 1);
    assert.deepEqual(await back, { resumed: true });
    assert.deepEqual(await hub.inspect("frame"), before);
    const { pid, clients, detached, leases } = await hub.status();
    assert.deepEqual([pid, clients, detached, leases], [testHub.pid, 1, 0, 2]);
    using later = await hub.create("later", ITEM);
    await later.publish();
    (await opening).close();
    assert.equal(read.object, array.object);
  });
});

describe("a hub that is stopped on purpose", () => {
  checkLeaks();

  it("is not started again by its clients, which get an error", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect(STARTS);
    await using other = await testHub.connect();
    const ended = new Promise((resolve) => hub.onEnd(resolve));
    await other.stop({ force: true });
    assert.ok(hasCode(await soon("the end is told", ended), "HUB_GONE"));
    await testHub.exited();
    await assert.rejects(hub.status(), (error) => hasCode(error, "HUB_GONE"));
    await assert.rejects(connect({ socket: testHub.socket, start: false }), (error) =>
      hasCode(error, "HUB_UNAVAILABLE"),
    );
  });
});
