/** A watch of a real hub, its channels and its services. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { GpuMemory } from "../../../src/watch/gpu-memory.js";
import { HubWatch } from "../../../src/watch/hub-watch.js";
import { ratesBetween } from "../../../src/watch/rates.js";
import type { Snapshot, WatchedObject } from "../../../src/watch/snapshot.js";
import { checkLeaks } from "../../support/leak-check.js";
import { killHub, TestFolder } from "../../support/test-folder.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";
import { ask, asked, SERVICE, ServiceRig } from "../service/service-rig.js";

const MESSAGE = { dtype: "float64", shape: [8] } as const;

function watchOf(socket: string): HubWatch {
  // Without a GPU the library is missing, which other tests look at.
  return new HubWatch({ socket, program: "watch" }, new GpuMemory(() => assert.fail("no GPU")));
}

function objectIn({ objects }: Snapshot, name: string): WatchedObject {
  const found = objects.find((object) => object.name === name);
  assert.ok(found !== undefined, `${name} among ${objects.map((object) => object.name)}`);
  return found;
}

function channelIn({ channels }: Snapshot, name: string) {
  const found = channels.find((channel) => channel.name === name);
  assert.ok(found !== undefined && found.unreadable === undefined, JSON.stringify(found));
  return found;
}

describe("HubWatch", () => {
  checkLeaks();

  it("copies no more of a message's meta than it needs", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const metaBytesMax = 64 * 1024;
    using channel = await hub.createChannel("large", { ...MESSAGE, slots: 2, metaBytesMax });
    using slot = await channel.loan();
    slot.commit({ meta: new Uint8Array(metaBytesMax).fill(7) });
    using watched = await hub.observeChannel("large");
    for (const wanted of [0, 24]) {
      const [message] = watched.messages(1, wanted);
      assert.deepEqual(message?.meta, new Uint8Array(wanted).fill(7));
      assert.equal(message?.meta.buffer.byteLength, wanted);
    }
  });

  it("has each object with its holders, and leaves out itself", async () => {
    await using testHub = await TestHub.start();
    await using watch = watchOf(testHub.socket);
    await using owner = await testHub.connect({ program: "producer.mjs" });
    await using reader = await testHub.connect({ program: "reader.py" });
    using array = await owner.create("frame", MESSAGE);
    await array.publish();
    using _ = await reader.open("frame");
    using channel = await owner.createChannel("numbers", { ...MESSAGE, slots: 4 });
    const first = await watch.snapshot();
    assert.equal(first.hub.answers, true);
    assert.equal(first.hub.status?.clients, 2);
    const frame = objectIn(first, "frame");
    assert.deepEqual(
      frame.holders.map(({ program, access }) => [program, access]),
      [
        ["producer.mjs", "owner"],
        ["reader.py", "read"],
      ],
    );
    assert.deepEqual([frame.device, frame.heldBytes >= 64], ["host", true]);
    for (const snapshot of [first, await watch.snapshot()]) {
      const { leases, holders } = objectIn(snapshot, "numbers");
      assert.deepEqual([leases, holders.length], [1, 1]);
      assert.deepEqual(
        snapshot.clients.map(({ program, language, leases }) => [program, language, leases]),
        [
          ["producer.mjs", "JavaScript", 2],
          ["reader.py", "Python", 1],
        ],
      );
      const [producer] = snapshot.clients;
      assert.match(producer?.command ?? "", /node/);
      assert.equal(producer?.objects.length, 2);
    }
    assert.ok(channel.open);
    assert.equal(first.devices[0]?.heldBytes, first.hub.status?.hostBytes);
  });

  it("keeps up with what is created, opened, closed and removed", async () => {
    await using testHub = await TestHub.start();
    await using watch = watchOf(testHub.socket);
    await using hub = await testHub.connect();
    assert.deepEqual((await watch.snapshot()).objects, []);
    using pinned = await hub.create("kept", { ...MESSAGE, lifetime: "pinned" });
    await pinned.publish();
    assert.equal(objectIn(await watch.snapshot(), "kept").ownerPid, process.pid);
    pinned.close();
    await until("its owner is gone", async () => {
      const { ownerPid, leases } = objectIn(await watch.snapshot(), "kept");
      return ownerPid === null && leases === 0;
    });
    await hub.remove("kept");
    assert.deepEqual((await watch.snapshot()).objects, []);
  });

  it("has what was replaced and is still held, with its holders and its bytes", async () => {
    await using testHub = await TestHub.start();
    await using watch = watchOf(testHub.socket);
    await using owner = await testHub.connect({ program: "producer.mjs" });
    await using reader = await testHub.connect({ program: "reader.py" });
    const values = new Float64Array(8);
    using _old = await owner.put("frame", values);
    using _held = await reader.open("frame");
    using _new = await owner.put("frame", values, { replace: true });
    const { objects, nameless, clients, devices, hub } = await watch.snapshot();
    assert.deepEqual(
      [objects, nameless].map((all) => all.map((it) => [it.name, it.nameless, it.leases])),
      [[["frame", undefined, 1]], [["frame", true, 2]]],
    );
    assert.deepEqual(
      nameless[0]?.holders.map(({ program }) => program),
      ["producer.mjs", "reader.py"],
    );
    assert.deepEqual(clients[1]?.objects, [nameless[0]?.object]);
    assert.equal(hub.status?.nameless.objects, 1);
    assert.equal(hub.status?.nameless.hostBytes, nameless[0]?.heldBytes);
    assert.equal(devices[0]?.heldBytes, hub.status?.hostBytes);
  });

  it("has rates, sizes and lags of a channel, and keeps nothing of it", async () => {
    await using testHub = await TestHub.start();
    await using watch = watchOf(testHub.socket);
    await using hub = await testHub.connect();
    await using other = await testHub.connect({ program: "slow" });
    const writer = await hub.createChannel("numbers", { ...MESSAGE, slots: 8 });
    using reader = await other.openChannel("numbers", { from: "oldest" });
    const before = await watch.snapshot();
    for (let count = 0; count < 5; count += 1) {
      using slot = await writer.loan();
      slot.commit({ byteLength: 16 });
    }
    (await reader.next())?.release();
    const after = await watch.snapshot();
    const { committed, meanBytes, lastMessageAtMs, readers } = channelIn(after, "numbers");
    assert.deepEqual([committed, meanBytes], [5, 16]);
    assert.ok(Math.abs(Date.now() - Number(lastMessageAtMs)) < 60_000);
    assert.deepEqual(
      readers.map(({ place, behind, received }) => [place, behind, received]),
      [[0, 4, 1]],
    );
    const { ms, channels } = ratesBetween(before, after);
    const rates = channels.get(objectIn(after, "numbers").object);
    assert.equal(Math.round((Number(rates?.messages) * ms) / 1000), 5);
    assert.equal(Math.round((Number(rates?.bytes) * ms) / 1000), 80);
    assert.equal(Math.round((Number(rates?.readers.get(0)?.received) * ms) / 1000), 1);
    reader.close();
    writer.close();
    await until("the hub has freed the channel", async () => (await hub.status()).hostBytes === 0);
    assert.deepEqual((await watch.snapshot()).channels, []);
  });

  it("has the requests under way and the latency of a service", async () => {
    const rig = await ServiceRig.start();
    await using watch = watchOf(rig.hub.socket);
    try {
      const worker = await rig.worker({ depth: 4, concurrency: 4 });
      const client = await rig.client();
      for (let id = 0; id < 3; id += 1) await ask(client, { id });
      const before = await watch.snapshot();
      const held = [7, 8].map((id) => asked(client, { op: "hold", id }));
      assert.deepEqual([await worker.says(), await worker.says()], [{ began: 7 }, { began: 8 }]);
      await ask(client, { id: 3 });
      const [service] = (await watch.snapshot()).services;
      const counts = {
        replyChannels: service?.replyChannels.length,
        offerChannels: service?.offerChannels.length,
      };
      assert.deepEqual(
        { ...service, latency: undefined, ...counts },
        {
          name: SERVICE,
          workers: 1,
          links: 1,
          offers: 1,
          underWay: 2,
          answered: 4,
          latency: undefined,
          replyChannels: 1,
          offerChannels: 1,
        },
      );
      const { medianMs = -1, maxMs = -1, count } = service?.latency ?? {};
      assert.ok(Number(count) >= 2 && medianMs >= 0 && maxMs >= medianMs);
      worker.goOn("release");
      worker.goOn("release");
      for (const reply of await soon("the replies", Promise.all(held))) reply.release();
      const after = await watch.snapshot();
      assert.deepEqual([after.services[0]?.underWay, after.services[0]?.answered], [0, 6]);
      const { ms, services } = ratesBetween(before, after);
      assert.equal(Math.round((Number(services.get(SERVICE)?.answers) * ms) / 1000), 3);
    } finally {
      await watch.close();
      await rig[Symbol.asyncDispose]();
    }
  });

  it("goes on with the next hub if the hub is killed, and says that it is another", async () => {
    await using testHub = await TestHub.start();
    await using watch = watchOf(testHub.socket);
    await using hub = await testHub.connect();
    using array = await hub.create("frame", { ...MESSAGE, lifetime: "pinned" });
    await array.publish();
    using writer = await hub.createChannel("numbers", { ...MESSAGE, slots: 4 });
    const before = await watch.snapshot();
    assert.equal(before.hub.successors, 0);
    testHub.kill("SIGKILL");
    await until("the next hub answers", async () => (await watch.snapshot()).hub.successors === 1);
    await hub.status();
    using slot = await writer.loan();
    slot.commit();
    using _ = await hub.create("second", MESSAGE);
    const after = await watch.snapshot();
    assert.notEqual(after.hub.status?.pid, before.hub.status?.pid);
    assert.deepEqual(after.objects.map(({ name }) => name).sort(), ["frame", "numbers", "second"]);
    const [holder] = objectIn(after, "frame").holders;
    assert.equal(holder?.sinceMs, objectIn(before, "frame").holders[0]?.sinceMs);
    assert.equal(channelIn(after, "numbers").committed, 1);
  });

  it("says that the hub does not answer, keeps what it knew, and joins a later hub", async () => {
    using folder = new TestFolder();
    await using watch = watchOf(folder.socket);
    const none = await watch.snapshot();
    assert.deepEqual([none.hub.answers, none.objects], [false, []]);
    assert.match(none.hub.reason ?? "", /none listens there/);
    assert.ok(hasCode(watch.trouble, "HUB_UNAVAILABLE"));
    const testHub = await TestHub.start({ folder });
    try {
      const hub = await testHub.connect({ reconnectTimeoutMs: 100 });
      const array = await hub.create("frame", { ...MESSAGE, lifetime: "pinned" });
      await array.publish();
      assert.equal((await watch.snapshot()).objects.length, 1);
      await testHub.killWithKeeper();
      await until("the end of the connection is known", async () => {
        const away = await watch.snapshot({ timeoutMs: 50 });
        assert.deepEqual([away.hub.answers, away.objects.length], [false, 1]);
        return /connection to the hub .+ ended/.test(away.hub.reason ?? "");
      });
      await hub.close();
    } finally {
      await testHub[Symbol.asyncDispose]();
    }
  });

  it("forgets everything when the hub is stopped, and joins the hub after it", async () => {
    using folder = new TestFolder();
    await using watch = watchOf(folder.socket);
    const first = await TestHub.start({ folder });
    const hub = await first.connect();
    using writer = await hub.createChannel("numbers", { ...MESSAGE, slots: 4 });
    assert.equal((await watch.snapshot()).channels.length, 1);
    await hub.stop({ force: true });
    await first.exited();
    await until("it is known", async () => !(await watch.snapshot()).hub.answers);
    assert.deepEqual((await watch.snapshot()).objects, []);
    assert.ok(writer !== undefined);
    await hub.close();
    const second = await TestHub.start({ folder });
    const { hub: watched } = await watch.snapshot();
    assert.deepEqual([watched.answers, watched.successors], [true, 1]);
    await watch.close();
    await killHub(folder.path);
    await second.exited();
  });

  it("throws CLOSED after close(), and ABORTED if its signal is aborted", async () => {
    await using testHub = await TestHub.start();
    const watch = watchOf(testHub.socket);
    const abort = new AbortController();
    abort.abort();
    await assert.rejects(watch.snapshot({ signal: abort.signal }), { code: "ABORTED" });
    await watch.close();
    await assert.rejects(watch.snapshot(), { code: "CLOSED" });
  });
});
