/**
 * Channels whose writers and hubs die at any moment: no committed message is lost, and no process
 * waits for a dead one.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { ChannelReader } from "../../../src/channel/channel-reader.js";
import { checkLeaks } from "../../support/leak-check.js";
import { nightly, Random, seedOfRun } from "../../support/random.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { kill, resultOf, startReader, startWriter, tell } from "./channel-rig.js";

const LATE = { timeoutMs: 30_000 };
const ROUNDS = nightly ? 50 : 4;

/** Reads until an error or the end. @returns its code, and the number after the last message */
async function drain(reader: ChannelReader): Promise<{ end: string; next: number }> {
  let next = 0;
  try {
    for await (const slot of reader) {
      assert.equal(slot.sequence, next + slot.missed);
      next = slot.sequence + 1;
    }
  } catch (error) {
    return { end: (error as { code: string }).code, next };
  }
  return { end: "end", next };
}

/** Starts the next hub in the folder of one that has ended. */
async function nextHub({ folder }: TestHub): Promise<AsyncDisposable> {
  const hub = await TestHub.start({ folder });
  return {
    [Symbol.asyncDispose]: async () => {
      await hub.killWithKeeper();
    },
  };
}

describe("a channel whose writer is killed", () => {
  checkLeaks();

  it("is read by all readers up to the last commit", async (test) => {
    const seed = seedOfRun();
    test.diagnostic(`seed ${seed}`);
    const random = new Random(seed);
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    for (let round = 0; round < ROUNDS; round += 1) {
      await using writer = await startWriter(testHub.socket, { slots: 1 + random.below(16) });
      using watched = await hub.observeChannel("channel");
      await using other = await startReader(testHub.socket, { from: "oldest" });
      using reader = await hub.openChannel("channel", { from: "oldest" });
      const reading = drain(reader);
      writer.goOn("flood");
      const enough = random.below(5000);
      await until("messages flow", () => watched.statistics().committed > enough);
      await kill(writer);
      const { end, next } = await reading;
      const { wrong, ...result } = await resultOf(other);
      assert.deepEqual([end, result.end, wrong], ["PEER_GONE", "PEER_GONE", 0]);
      assert.deepEqual([next, result.next, result.missed, reader.missed], [next, next, 0, 0]);
      // The writer may have died between numbering a message and committing it.
      const { committed } = watched.statistics();
      assert.ok(next === committed || next === committed - 1);
      reader.close();
      watched.close();
      await until("the name is free", async () => (await hub.list()).length === 0);
    }
  });

  it('continues with the next writer without a gap if whenWriterGone is "wait"', async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using first = await startWriter(testHub.socket, { slots: 8, whenWriterGone: "wait" });
    using watched = await hub.observeChannel("channel");
    using reader = await hub.openChannel("channel", { from: "oldest" });
    const reading = drain(reader);
    await assert.rejects(hub.resumeChannel("channel"), { code: "IN_USE" });
    let writer = first;
    for (let round = 0; round < ROUNDS; round += 1) {
      const before = watched.statistics().committed;
      writer.goOn("flood");
      await until("messages flow", () => watched.statistics().committed > before + 100);
      await kill(writer);
      await until("a writer is waited for", () => watched.statistics().writer === "awaited");
      writer = await startWriter(testHub.socket, {}, "resume");
    }
    const last = (await tell(writer, "send 10")) as { committed: number };
    await tell(writer, "end");
    writer.goOn("leave");
    await writer.exited();
    assert.deepEqual(await reading, { end: "end", next: last.committed });
    assert.equal(reader.missed, 0);
    assert.equal(watched.statistics().writers, ROUNDS + 1);
  });

  it("continues with the next writer after an orderly close", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using reader = await (async () => {
      using first = await hub.createChannel("channel", { byteLength: 8, whenWriterGone: "wait" });
      first.tryLoan()?.commit();
      return await hub.openChannel("channel", { from: "oldest" });
    })();
    using second = await hub.resumeChannel("channel");
    second.tryLoan()?.commit();
    second.end();
    assert.deepEqual(await drain(reader), { end: "end", next: 2 });
    await until("the name is free", async () => (await hub.list()).length === 0);
    await assert.rejects(hub.resumeChannel("channel", { wait: false }), { code: "NOT_FOUND" });
  });
});

describe("a channel whose name is removed", () => {
  checkLeaks();
  const options = { byteLength: 8, whenWriterGone: "wait" } as const;

  it("ends normally for its readers, whether its writer closes it before or after", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    for (const order of ["close, remove", "remove, close"]) {
      using writer = await hub.createChannel("channel", options);
      using reader = await hub.openChannel("channel", { from: "oldest" });
      const reading = drain(reader);
      writer.tryLoan()?.commit();
      if (order === "close, remove") writer.close();
      await hub.remove("channel");
      writer.close();
      assert.deepEqual(await reading, { end: "end", next: 1 }, order);
    }
  });

  it("ends with PEER_GONE if its writer died, and normally if it awaited a writer", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using dying = await startWriter(testHub.socket, { whenWriterGone: "wait" });
    using watched = await hub.observeChannel("channel");
    using reader = await hub.openChannel("channel", { from: "oldest" });
    const reading = drain(reader);
    await hub.remove("channel");
    await kill(dying);
    assert.equal((await reading).end, "PEER_GONE");
    assert.equal(watched.statistics().writer, "gone");
    await using other = await startWriter(testHub.socket, { whenWriterGone: "wait" });
    using waiting = await hub.openChannel("channel", { from: "oldest" });
    using watchedToo = await hub.observeChannel("channel");
    const ended = drain(waiting);
    await kill(other);
    await until("a writer is waited for", () => watchedToo.statistics().writer === "awaited");
    await hub.remove("channel");
    assert.equal((await ended).end, "end");
  });
});

describe("a channel whose hub is killed", () => {
  checkLeaks();

  it("goes on, can be opened at the next hub, and there reports its writer's death", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using writer = await startWriter(testHub.socket, { slots: 8 });
    using watched = await hub.observeChannel("channel");
    using reader = await hub.openChannel("channel", { from: "oldest" });
    const reading = drain(reader);
    writer.goOn("flood");
    await until("messages flow", () => watched.statistics().committed > 100);
    await testHub.killWithKeeper();
    const before = watched.statistics().committed;
    await until("they flow without a hub", () => watched.statistics().committed > before + 100);
    await using _next = await nextHub(testHub);
    await using late = await startReader(testHub.socket);
    const then = watched.statistics().committed;
    await until("they flow to all readers", () => watched.statistics().committed > then + 100);
    await kill(writer);
    const { end, next } = await reading;
    const result = await resultOf(late);
    assert.deepEqual(
      [end, result.end, result.next, result.wrong],
      ["PEER_GONE", "PEER_GONE", next, 0],
    );
  });

  it("ends for its readers at the next hub if its writer was killed meanwhile", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using writer = await startWriter(testHub.socket, { slots: 8 });
    using reader = await hub.openChannel("channel", { from: "oldest" });
    await tell(writer, "send 5");
    for (let sequence = 0; sequence < 5; sequence += 1) (await reader.next(LATE))?.release();
    const gone = assert.rejects(reader.next(LATE), { code: "PEER_GONE" });
    await testHub.killWithKeeper();
    await kill(writer);
    await using _next = await nextHub(testHub);
    await gone;
  });

  it("gets its slots back at the next hub if a reader was killed meanwhile", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("channel", { dtype: "uint32", shape: [64], slots: 2 });
    await using holds = await startReader(testHub.socket, { hold: 2 });
    for (let count = 0; count < 2; count += 1) (await writer.loan(LATE)).commit();
    const waiting = writer.loan(LATE);
    await testHub.killWithKeeper();
    await kill(holds);
    await using _next = await nextHub(testHub);
    (await waiting).commit();
  });

  it("ends for its readers if its writer ends it while no hub runs", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using writer = await startWriter(testHub.socket, { slots: 8 });
    using reader = await hub.openChannel("channel", { from: "oldest" });
    const reading = drain(reader);
    await testHub.killWithKeeper();
    await tell(writer, "send 20");
    await tell(writer, "end");
    assert.deepEqual(await reading, { end: "end", next: 20 });
    await using _next = await nextHub(testHub);
    await until("the name is free", async () => (await hub.list()).length === 0);
  });
});
