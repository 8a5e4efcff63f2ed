/** Arrays in legacy memory that have a name: only their owner keeps the memory alive. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const OWNS = new URL("./actors/owns-legacy.js", import.meta.url);
const OPENS = new URL("./actors/opens-legacy.js", import.meta.url);

const LEGACY = { dtype: "int32", shape: [3], device: "host", mechanism: "legacy" } as const;

async function published(hub: Hub, name: string) {
  const array = await hub.create(name, LEGACY);
  await array.write(Int32Array.of(1, 2, 3));
  await array.publish();
  return array;
}

async function actor(url: URL, testHub: TestHub, name: string) {
  const started = new Actor(url, { args: [testHub.socket, name] });
  return { started, said: await started.says() };
}

const leasesHeld = async (hub: Hub) => (await hub.status()).leases;
const names = async (hub: Hub) => (await hub.list()).map(({ name }) => name);

describe("an array in legacy memory on the hub", () => {
  checkLeaks();

  it("is opened without a copy, and stays until its last reader has closed it", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const array = await published(hub, "lent");
    const { started: reader, said } = await actor(OPENS, testHub, "lent");
    await using _ = reader;
    assert.deepEqual(said, { values: [1, 2, 3], gone: false });
    await array.write(Int32Array.of(4, 5, 6));
    array.close();
    await until("the name is free", async () => (await hub.list()).length === 0);
    await assert.rejects(hub.open("lent", { wait: false }), (e) => hasCode(e, "NOT_FOUND"));
    await assert.rejects(array.publish(), (e) => hasCode(e, "CLOSED"));
    reader.goOn("read");
    assert.deepEqual(await reader.says(), { values: [4, 5, 6], gone: false });
    assert.equal(await leasesHeld(hub), 2, "the owner keeps the memory");
    reader.goOn("close");
    assert.equal(await reader.says(), "closed");
    await until("the memory is free", async () => (await leasesHeld(hub)) === 0);
  });

  it("tells its readers when the owner dies, and loses its name", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const { started: owner, said } = await actor(OWNS, testHub, "lent");
    await using _ = owner;
    assert.equal(said, "legacy");
    using array = await hub.open("lent", { dtype: "int32" });
    assert.deepEqual([...(await array.read())], [1, 2, 3]);
    assert.equal(array.memoryGone, false);
    owner.kill("SIGKILL");
    await until("the mark is ended", () => array.memoryGone);
    await assert.rejects(array.read(), (e) => hasCode(e, "PEER_GONE"));
    await assert.rejects(hub.open("lent", { wait: false }), (e) => hasCode(e, "NOT_FOUND"));
  });

  it("is opened in its own process, too, and freed after both are closed", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const array = await published(hub, "own");
    const same = await hub.open("own", { dtype: "int32", access: "read-write" });
    await same.write(Int32Array.of(7, 8, 9));
    assert.deepEqual([...(await array.read())], [7, 8, 9]);
    array.close();
    assert.deepEqual([...(await same.read())], [7, 8, 9]);
    same.close();
    await until("it is free", async () => (await leasesHeld(hub)) === 0);
  });

  it("cannot be pinned", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const pinned = hub.create("lent", { ...LEGACY, lifetime: "pinned" });
    await assert.rejects(pinned, (e) => hasCode(e, "UNSUPPORTED"));
    assert.deepEqual(await names(hub), []);
  });

  it("comes back to the next hub, and its owner still waits for its readers", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const array = await published(hub, "lent");
    const { started: reader } = await actor(OPENS, testHub, "lent");
    await using _ = reader;
    await hub.restart();
    using again = await hub.open("lent", { dtype: "int32" });
    assert.deepEqual([...(await again.read())], [1, 2, 3]);
    again.close();
    array.close();
    reader.goOn("read");
    assert.deepEqual(await reader.says(), { values: [1, 2, 3], gone: false });
    await hub.restart();
    reader.goOn("read");
    assert.deepEqual(await reader.says(), { values: [1, 2, 3], gone: false });
    assert.equal(await leasesHeld(hub), 2);
    reader.goOn("close");
    await until("the memory is free", async () => (await leasesHeld(hub)) === 0);
  });
});
