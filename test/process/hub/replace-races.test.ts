import assert from "node:assert/strict";
import { once } from "node:events";
import { describe, it } from "node:test";
import { Worker } from "node:worker_threads";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const ARRAY = { dtype: "uint8", shape: [1] } as const;
const REPLACES = new URL("./actors/replaces.js", import.meta.url);
const CLIENT = new URL("../../../src/index.js", import.meta.url).href;

describe("replace beside others", () => {
  checkLeaks();

  it("by two clients never meets NAME_TAKEN, and an open never fails in between", async () => {
    await using testHub = await TestHub.start();
    await using one = await testHub.connect();
    await using other = await testHub.connect();
    await using reader = await testHub.connect();
    (await one.put("x", Uint8Array.of(0), { lifetime: "pinned" })).close();
    let isOver = false;
    const publish = async (hub: typeof one) => {
      for (let step = 0; step < 50; step += 1)
        (await hub.put("x", Uint8Array.of(1), { lifetime: "pinned", replace: true })).close();
    };
    const open = async () => {
      while (!isOver) (await reader.open("x", { wait: false })).close();
    };
    const opens = open();
    await Promise.all([publish(one), publish(other)]);
    isOver = true;
    await opens;
    assert.equal((await one.status()).objects, 1);
  });

  it("leaves the old object under its name if its publisher ends before publish", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using old = await hub.put("x", Uint8Array.of(1));
    const source = `
      const { parentPort, workerData } = require("node:worker_threads");
      import(workerData.client).then(async ({ connect }) => {
        const hub = await connect({ socket: workerData.socket });
        const options = { dtype: "uint8", shape: [1], lifetime: "pinned", replace: true };
        globalThis.kept = await hub.create("x", options);
        parentPort.postMessage("created");
      });`;
    const workerData = { client: CLIENT, socket: testHub.socket };
    const worker = new Worker(source, { eval: true, workerData });
    await once(worker, "message");
    assert.equal((await hub.status()).objects, 2);
    await worker.terminate();
    assert.equal((await hub.inspect("x")).object.object, old.object);
    using same = await hub.open("x", { wait: false, dtype: "uint8" });
    assert.deepEqual(await same.read(), Uint8Array.of(1));
  });

  it("is taken by arrays, bundles, channels and timelines, and readers keep the old one", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using second = await testHub.connect();
    const replace = true;
    using array = await hub.create("array", ARRAY);
    await array.publish();
    using newArray = await second.create("array", { ...ARRAY, replace });
    await newArray.publish();
    using bundle = await hub.createBundle("bundle", { w: ARRAY });
    await bundle.publish();
    using newBundle = await second.createBundle("bundle", { w: ARRAY }, { replace });
    await newBundle.publish();
    using _timeline = await hub.createTimeline("timeline");
    using _newTimeline = await second.createTimeline("timeline", { replace });
    using writer = await hub.createChannel("channel", ARRAY);
    using reader = await second.openChannel("channel");
    using _newWriter = await second.createChannel("channel", { ...ARRAY, replace });
    using slot = await writer.loan();
    await slot.array.write(Uint8Array.of(7));
    slot.commit();
    using message = await reader.next();
    assert.deepEqual(await message?.array.read(), Uint8Array.of(7));
    const names = (await hub.list()).map(({ name }) => name);
    assert.deepEqual(names, ["array", "bundle", "channel", "timeline"]);
  });

  for (const last of ["create", "write", "publish", "put"]) {
    it(`leaves the name whole if its publisher is killed after ${last}`, async () => {
      await using testHub = await TestHub.start();
      await using hub = await testHub.connect();
      const old = await hub.put("x", new Uint8Array(100_000), { lifetime: "pinned" });
      for (const isHeld of [true, false, false]) {
        if (!isHeld) old.close();
        await using publisher = new Actor(REPLACES, { args: [testHub.socket, last] });
        await publisher.says();
        publisher.kill("SIGKILL");
        const wasWhole = await whole(hub);
        await publisher.exited();
        await until("the hub has noticed", async () => {
          const { clients, detached } = await hub.status();
          return clients === 1 && detached === 0;
        });
        const isNew = (await whole(hub)) > 0;
        assert.ok(wasWhole === 0 || isNew, "the old values do not come back");
        if (last !== "put") assert.equal(isNew, last === "publish");
      }
      const { objects, nameless } = await hub.status();
      assert.deepEqual([objects, nameless.objects], [1, 0]);
    });
  }
});

/** The value of all elements of "x", which opens at once. */
async function whole(hub: Hub): Promise<number> {
  using opened = await hub.open("x", { wait: false, dtype: "uint8" });
  const values = await opened.read();
  const [first = 0] = values;
  assert.ok(
    values.every((value) => value === first),
    "its values are of one object",
  );
  return first;
}
