/** A reader written from docs/protocol.md: two rules that are easy to miss, and why they matter. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { kill, startWriter, tell } from "./channel-rig.js";
import { createByPage, PageClient, PageReader } from "./page-client.js";

const LIMIT = { timeoutMs: 30_000 };

describe("a reader that is waited for, at a position without a message", () => {
  checkLeaks();

  it("stores `released` and rings, so that the writer goes on", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("channel", { byteLength: 8, slots: 1 });
    using client = new PageClient(testHub.socket);
    await client.hello();
    using reader = await PageReader.open(client, "channel");
    using stream = hub.device().createStream();
    (await writer.loan({ stream })).close();
    const loaning = writer.loan(LIMIT);
    using watched = await hub.observeChannel("channel");
    assert.equal(watched.statistics().committed, 0);
    assert.equal(reader.take(), undefined);
    (await loaning).commit();
    assert.equal(reader.take(), 0);
  });

  it("blocks the writer for ever if it stores `released` only for messages", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("channel", { byteLength: 8, slots: 1 });
    using client = new PageClient(testHub.socket);
    await client.hello();
    using reader = await PageReader.open(client, "channel", { givesBackNothing: true });
    using stream = hub.device().createStream();
    (await writer.loan({ stream })).close();
    assert.equal(reader.take(), undefined);
    await assert.rejects(writer.loan({ timeoutMs: 50 }), { code: "TIMEOUT" });
    assert.equal(reader.take(), undefined);
    assert.equal(writer.tryLoan(), undefined);
  });

  for (const givesBackNothing of [false, true]) {
    const what = givesBackNothing ? "does not store `released`" : "stores `released`";
    it(`${what} for a message that was lost with its writer`, async () => {
      await using testHub = await TestHub.start();
      await using hub = await testHub.connect();
      using client = new PageClient(testHub.socket);
      await client.hello();
      using first = await createByPage(client, "channel");
      using reader = await PageReader.open(client, "channel", { givesBackNothing });
      first.commitUnfinished();
      assert.equal((await client.ask({ op: "release", lease: first.lease })).ok, true);
      assert.equal(reader.state, 4);
      using next = await hub.resumeChannel("channel", LIMIT);
      const loaning = next.loan({ timeoutMs: givesBackNothing ? 50 : LIMIT.timeoutMs });
      assert.equal(reader.take(), undefined);
      assert.equal(reader.missed, 1);
      if (givesBackNothing) await assert.rejects(loaning, { code: "TIMEOUT" });
      else (await loaning).commit();
      assert.equal(reader.take(), givesBackNothing ? undefined : 1);
      next.end();
    });
  }
});

describe("a reader that sleeps while hub and writer are killed", () => {
  checkLeaks();

  it("hears its bell only after it has returned to the next hub", async () => {
    await using testHub = await TestHub.start();
    await using writer = await startWriter(testHub.socket, { slots: 2 });
    using client = new PageClient(testHub.socket);
    await client.hello();
    using reader = await PageReader.open(client, "channel");
    await tell(writer, "send 1");
    assert.equal(reader.take(), 0);
    assert.ok(reader.fallAsleep());
    assert.equal(client.hubHungUp, false);
    await testHub.killWithKeeper();
    await kill(writer);
    assert.ok(client.hubHungUp);

    const nextHub = await TestHub.start({ folder: testHub.folder });
    try {
      await using other = await nextHub.connect();
      await until("the next hub knows that the writer is dead", async () => {
        const [object] = await other.list();
        return object === undefined || object.ownerPid === null;
      });
      assert.equal(reader.bellRang(), false);
      assert.equal(reader.state, 1);

      await client.comeBack(testHub.socket, reader.lease, reader.fds);
      assert.ok(reader.bellRang());
      assert.equal(reader.state, 3);
    } finally {
      await nextHub.killWithKeeper();
    }
  });
});
