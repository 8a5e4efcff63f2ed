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

async function actor(url: URL, testHub: TestHub, lie = "none") {
  const started = new Actor(url, { args: [testHub.socket, "lent", lie] });
  return { started, said: await started.says() };
}

const leasesHeld = async (hub: Hub) => (await hub.status()).leases;

describe("an array in legacy memory on the hub", () => {
  checkLeaks();

  it("is opened without a copy, and stays until its last reader has closed it", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const { started: owner, said } = await actor(OWNS, testHub);
    await using _ = owner;
    assert.equal(said, "published");
    const { started: reader, said: first } = await actor(OPENS, testHub);
    await using __ = reader;
    assert.deepEqual(first, { values: [1, 2, 3], gone: false });
    owner.goOn("write");
    assert.equal(await owner.says(), "written");
    owner.goOn("close");
    assert.equal(await owner.says(), "closing");
    await until("the name is free", async () => (await hub.list()).length === 0);
    await assert.rejects(hub.open("lent", { wait: false }), (e) => hasCode(e, "NOT_FOUND"));
    reader.goOn("read");
    assert.deepEqual(await reader.says(), { values: [4, 5, 6], gone: false });
    assert.equal(await leasesHeld(hub), 2, "the owner keeps the memory");
    reader.goOn("close");
    assert.equal(await reader.says(), "closed");
    assert.equal(await owner.says(), "freed");
    assert.equal(await leasesHeld(hub), 0);
  });

  it("keeps its lease while a view has the memory mapped", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const { started: owner } = await actor(OWNS, testHub);
    await using _ = owner;
    const array = await hub.open("lent", { dtype: "int32" });
    const memory = array.buffer.memory.retain();
    array.close();
    await assert.rejects(array.publish(), (e) => hasCode(e, "CLOSED"));
    owner.goOn("close");
    assert.equal(await owner.says(), "closing");
    await until("the name is free", async () => (await hub.list()).length === 0);
    assert.equal(await leasesHeld(hub), 2);
    memory.release();
    assert.equal(await owner.says(), "freed");
  });

  it("is freed once its reader is killed", async () => {
    await using testHub = await TestHub.start();
    const { started: owner } = await actor(OWNS, testHub);
    await using _ = owner;
    const { started: reader } = await actor(OPENS, testHub);
    await using __ = reader;
    owner.goOn("close");
    assert.equal(await owner.says(), "closing");
    reader.kill("SIGKILL");
    assert.equal(await owner.says(), "freed");
  });

  it("tells its readers when the owner dies, and loses its name", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const { started: owner } = await actor(OWNS, testHub);
    await using _ = owner;
    using array = await hub.open("lent", { dtype: "int32" });
    assert.deepEqual([...(await array.read())], [1, 2, 3]);
    assert.equal(array.memoryGone, false);
    owner.kill("SIGKILL");
    await until("the mark is ended", () => array.memoryGone);
    await assert.rejects(array.read(), (e) => hasCode(e, "PEER_GONE"));
    await assert.rejects(hub.open("lent", { wait: false }), (e) => hasCode(e, "NOT_FOUND"));
  });

  for (const [lie, code] of [
    ["garbage", "INVALID_HANDLE"],
    ["too long", "INVALID_DESCRIPTOR"],
  ] as const) {
    it(`is refused with ${code} if its descriptor is ${lie}`, async () => {
      await using testHub = await TestHub.start();
      await using hub = await testHub.connect();
      const { started: owner } = await actor(OWNS, testHub, lie);
      await using _ = owner;
      await assert.rejects(hub.open("lent"), (e) => hasCode(e, code));
      await until("only the owner has a lease", async () => (await leasesHeld(hub)) === 1);
    });
  }

  it("cannot be pinned", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const { started: owner, said } = await actor(OWNS, testHub, "pinned");
    await using _ = owner;
    assert.equal(said, "UNSUPPORTED");
    assert.deepEqual(await hub.list(), []);
  });

  it("cannot be created by TypeScript, where freeing it later could wait for ever", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const options = { dtype: "int32", shape: [3], mechanism: "legacy" } as const;
    await assert.rejects(hub.create("lent", options), TypeError);
  });
});
