import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import { MemoryPool } from "../../../src/gpu/memory/memory-pool.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const PRODUCES = new URL("./actors/produces.js", import.meta.url);
const CONSUMES = new URL("./actors/consumes.js", import.meta.url);

/** Waits for several round trips, in which a pending reply would have come. */
async function roundTrips(hub: Hub): Promise<void> {
  for (let i = 0; i < 5; i += 1) await hub.status();
}

describe("arrays of a pool", () => {
  checkLeaks();

  it("are opened by name like others, and name their mechanism", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using pool = MemoryPool.create(hub.device(), { maxBytes: 1 << 20, shared: true });
    using one = await hub.create("one", { dtype: "float32", shape: [1000], pool });
    using other = await hub.create("other", { dtype: "float32", shape: [1000], pool });
    await one.write(Float32Array.from({ length: 1000 }, (_, i) => i + 100));
    await other.write(new Float32Array(1000).fill(7));
    await one.publish();
    await other.publish();
    assert.equal(one.buffer.mechanism, "pool");
    await using actor = new Actor(CONSUMES, { args: [testHub.socket, "one"] });
    const { bits } = (await actor.says()) as { bits: string };
    const values = await one.read();
    assert.equal(bits, Buffer.from(values.buffer).toString("base64"));
    using opened = (await hub.open("other")).expectDType("float32");
    assert.deepEqual([opened.buffer.mechanism, (await opened.read())[999]], ["pool", 7]);
    const [summary] = await hub.list();
    assert.deepEqual(
      [summary?.descriptor.mechanism, summary?.descriptor.pooled?.pool],
      ["pool", pool.id],
    );
  });

  it("need a pool that can be shared", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using pool = MemoryPool.create(hub.device(), { maxBytes: 1 << 20 });
    await assert.rejects(hub.create("one", { dtype: "int8", shape: [4], pool }), (error) =>
      hasCode(error, "UNSUPPORTED"),
    );
    assert.deepEqual(await hub.list(), []);
  });
});

describe("an array shared through the hub", () => {
  checkLeaks();

  it("is the same memory in two other processes, bit for bit, both ways", async () => {
    await using testHub = await TestHub.start();
    await using producer = new Actor(PRODUCES, {
      args: [testHub.socket, "frame", "held", "publish", "100000"],
    });
    await producer.says();
    await using consumer = new Actor(CONSUMES, { args: [testHub.socket, "frame"] });
    const wanted = Float32Array.from({ length: 100_000 }, (_, i) => i + 100);
    const { bits } = (await consumer.says()) as { bits: string };
    assert.ok(Buffer.from(wanted.buffer).equals(Buffer.from(bits, "base64")));
    await using hub = await testHub.connect();
    using array = (await hub.open("frame")).expectDType("float32");
    assert.deepEqual(await array.read(), wanted);
    consumer.goOn();
    await consumer.says();
    assert.deepEqual(
      await array.read(),
      wanted.map((_, i) => i * -1),
    );
    const { holders } = await hub.inspect("frame");
    assert.deepEqual(
      new Set(holders.map(({ pid, access }) => `${pid} ${access}`)),
      new Set([`${producer.pid} owner`, `${consumer.pid} read-write`, `${process.pid} read`]),
    );
  });

  it("is opened once it is published, and not before", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    let opened = false;
    const opening = hub.open("frame").then((array) => {
      opened = true;
      return array;
    });
    using made = await hub.create("frame", { dtype: "int32", shape: [3] });
    await made.write([1, 2, 3]);
    await roundTrips(hub);
    assert.equal(opened, false);
    await made.publish();
    using array = (await opening).expectDType("int32");
    assert.deepEqual([...(await array.read())], [1, 2, 3]);
    assert.equal(array.object, made.object);
  });

  it("throws at once if the opener does not wait", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using _made = await hub.create("frame", { dtype: "int32", shape: [3] });
    await assert.rejects(hub.open("frame", { wait: false }), (error) =>
      hasCode(error, "NOT_FOUND"),
    );
    await assert.rejects(hub.open("other", { wait: false }), (error) =>
      hasCode(error, "NOT_FOUND"),
    );
  });

  it("leaves no wait on the hub after the opener gave up", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await assert.rejects(hub.open("frame", { timeoutMs: 20 }), (error) =>
      hasCode(error, "TIMEOUT"),
    );
    const controller = new AbortController();
    const opening = hub.open("frame", { signal: controller.signal });
    await until("the hub knows of the open", async () => (await hub.status()).waitingOpens === 1);
    controller.abort(new Error("changed my mind"));
    await assert.rejects(
      opening,
      (error) => hasCode(error, "ABORTED") && (error.cause as Error).message === "changed my mind",
    );
    await until(
      "the hub has forgotten the opens",
      async () => (await hub.status()).waitingOpens === 0,
    );
  });

  it("releases the lease of an answer that comes after the opener gave up", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using made = await hub.create("frame", { dtype: "int32", shape: [3] });
    await made.publish();
    const controller = new AbortController();
    testHub.kill("SIGSTOP");
    const opening = hub.open("frame", { signal: controller.signal });
    const creating = hub.create("late", { dtype: "int32", shape: [3], signal: controller.signal });
    controller.abort();
    await assert.rejects(opening, (error) => hasCode(error, "ABORTED"));
    await assert.rejects(creating, (error) => hasCode(error, "ABORTED"));
    testHub.kill("SIGCONT");
    await until("only the owner holds anything", async () => {
      const { leases, objects } = await hub.status();
      return leases === 1 && objects === 1;
    });
  });

  it("throws CLOSED only from the closed one, not from others in the same process", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using made = await hub.create("frame", { dtype: "int32", shape: [2, 2] });
    await made.write([1, 2, 3, 4]);
    await made.publish();
    using one = (await hub.open("frame")).expectDType("int32");
    using other = (await hub.open("frame")).expectDType("int32");
    const row = one.slice(1);
    assert.deepEqual([...(await row.read())], [3, 4]);
    one.close();
    for (const closed of [one, row])
      await assert.rejects(closed.read(), (error) => hasCode(error, "CLOSED"));
    assert.throws(
      () => one.view(),
      (error) => hasCode(error, "CLOSED"),
    );
    assert.deepEqual([...(await other.read())], [1, 2, 3, 4]);
    await until("two leases are left", async () => (await hub.status()).leases === 2);
  });

  it("cannot be written by a reader, neither by a call nor by mapping its descriptor", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using made = await hub.create("frame", { dtype: "int32", shape: [2] });
    await made.publish();
    using reader = (await hub.open("frame")).expectDType("int32");
    await assert.rejects(reader.write([1, 2]), (error) => hasCode(error, "READ_ONLY"));
    await assert.rejects(reader.clear(), (error) => hasCode(error, "READ_ONLY"));
    assert.throws(
      () => reader.buffer.exportFd(),
      (error) => hasCode(error, "UNSUPPORTED"),
    );
  });

  it("can be closed by thousands at once", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using made = await hub.create("frame", { dtype: "int32", shape: [2] });
    await made.publish();
    const opened = await Promise.all(Array.from({ length: 5000 }, () => hub.open("frame")));
    assert.equal((await hub.status()).leases, 5001);
    for (const array of opened) array.close();
    assert.equal((await hub.status()).leases, 1);
  });
});

describe("a bundle shared through the hub", () => {
  checkLeaks();

  it("has all its arrays, their values and its metadata in another connection", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using reader = await testHub.connect();
    const metadata = { format: "pt", constructor: "kept" };
    const arrays = {
      w: { dtype: "float32", shape: [2, 2] },
      b: { dtype: "int64", shape: [3] },
      none: { dtype: "bool", shape: [0] },
    } as const;
    using made = await hub.createBundle("model", arrays, { metadata });
    await made.array("w").expectDType("float32").write([1, 2, 3, 4]);
    await made.array("b").expectDType("int64").write([5n, -6n, 7n]);
    await made.publish();
    using model = await reader.openBundle("model");
    assert.deepEqual(model.names(), ["w", "b", "none"]);
    assert.deepEqual({ ...model.metadata }, metadata);
    assert.deepEqual([...(await model.array("w").expectDType("float32").read())], [1, 2, 3, 4]);
    assert.deepEqual([...(await model.array("b").expectDType("int64").read())], [5n, -6n, 7n]);
    assert.equal((await model.array("none").read()).length, 0);
    assert.throws(
      () => model.array("other"),
      (error) => hasCode(error, "NOT_FOUND"),
    );
  });

  it("is not opened as an array, nor an array as a bundle, and no lease is left", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using bundle = await hub.createBundle("model", { w: { dtype: "float32", shape: [2] } });
    await bundle.publish();
    using array = await hub.create("frame", { dtype: "float32", shape: [2] });
    await array.publish();
    await assert.rejects(hub.open("model"), (error) => hasCode(error, "WRONG_KIND"));
    await assert.rejects(hub.openBundle("frame"), (error) => hasCode(error, "WRONG_KIND"));
    await until("two leases are left", async () => (await hub.status()).leases === 2);
  });
});

describe("a hub that is closed", () => {
  checkLeaks();

  it("releases everything, even what was not closed, and throws CLOSED afterwards", async () => {
    await using testHub = await TestHub.start();
    await using watcher = await testHub.connect();
    const hub = await testHub.connect();
    const made = await hub.create("frame", { dtype: "int32", shape: [2], lifetime: "pinned" });
    await made.publish();
    await hub.open("frame");
    await hub.close();
    await hub.close();
    const { leases, clients, objects } = await watcher.status();
    assert.deepEqual({ leases, clients, objects }, { leases: 0, clients: 1, objects: 1 });
    const attempts = [
      () => hub.status(),
      () => hub.list(),
      () => hub.open("frame"),
      () => hub.create("other", { dtype: "int32", shape: [2] }),
      () => hub.inspect("frame"),
      () => hub.remove("frame"),
      () => hub.stop(),
      () => made.publish(),
      () => made.read(),
      async () => hub.device("host"),
    ];
    for (const attempt of attempts)
      await assert.rejects(attempt(), (error) => hasCode(error, "CLOSED"), String(attempt));
  });

  it("ends pending calls with CLOSED and leaves nothing", async () => {
    await using testHub = await TestHub.start();
    const hub = await testHub.connect();
    const waiting = hub.open("never");
    testHub.kill("SIGSTOP");
    const creating = hub.create("frame", { dtype: "int32", shape: [2] });
    const closing = hub.close();
    testHub.kill("SIGCONT");
    await Promise.all([
      assert.rejects(waiting, (error) => hasCode(error, "CLOSED")),
      assert.rejects(creating, (error) => hasCode(error, "CLOSED")),
      closing,
    ]);
  });

  it("lets running transfers finish", async () => {
    await using testHub = await TestHub.start();
    const hub = await testHub.connect();
    const array = await hub.create("frame", { dtype: "float32", shape: [4096, 4096] });
    const values = new Float32Array(4096 * 4096).fill(7);
    const column = array.slice({}, { step: 2 });
    const transfers = [array.write(values), column.read(), array.clear()];
    const closing = hub.close();
    await Promise.all([...transfers, closing]);
  });
});
