/**
 * Channels between processes: where readers begin, how slow, stopped and killed readers affect the
 * others, and which processes are woken.
 */
import assert from "node:assert/strict";
import { performance } from "node:perf_hooks";
import { describe, it } from "node:test";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";
import { kill, resultOf, startReader, startWriter, tell } from "./channel-rig.js";

const LATE = { timeoutMs: 30_000 };

describe("channels between processes", () => {
  checkLeaks();

  it("are opened by name and read from the oldest, the latest or the next message", async () => {
    await using testHub = await TestHub.start();
    const { socket } = testHub;
    await using writer = await startWriter(socket, { slots: 8, whenFull: "drop-oldest" });
    await tell(writer, "send 20");
    await using oldest = await startReader(socket, { from: "oldest" });
    await using latest = await startReader(socket, { from: "latest" });
    await using next = await startReader(socket);
    await tell(writer, "send 1");
    await tell(writer, "end");
    const [first, second, third] = [
      await resultOf(oldest),
      await resultOf(latest),
      await resultOf(next),
    ];
    assert.ok(first.first !== null && first.first >= 12 && first.first < 19);
    assert.deepEqual([second.first, third.first], [19, 20]);
    for (const { end, next, wrong, missed } of [first, second, third]) {
      assert.deepEqual({ end, next, wrong, missed }, { end: "end", next: 21, wrong: 0, missed: 0 });
    }
  });

  it("free the slots of a killed reader, and keep working for the others", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using writer = await hub.createChannel("channel", { dtype: "uint32", shape: [64], slots: 4 });
    await using holds = await startReader(testHub.socket, { hold: 2 });
    await using reads = await startReader(testHub.socket);
    const send = async (): Promise<void> => {
      using slot = await writer.loan(LATE);
      new Uint32Array(slot.bytes.buffer, slot.bytes.byteOffset, 64).fill(writer.committed);
      slot.commit();
    };
    for (let count = 0; count < 4; count += 1) await send();
    const waiting = send();
    using watched = await hub.observeChannel("channel");
    await until("the others have read on", () => watched.statistics().readers[1]?.behind === 0);
    await kill(holds);
    await soon("the writer is woken", waiting);
    for (let count = 0; count < 100; count += 1) await send();
    await until("the seat is free", () => watched.statistics().readers.length === 1);
    writer.close();
    assert.deepEqual(await resultOf(reads), {
      end: "end",
      first: 0,
      next: 105,
      received: 105,
      missed: 0,
      wrong: 0,
    });
  });

  it("overtake a stopped lossy reader, and tell it how many messages it missed", async () => {
    await using testHub = await TestHub.start();
    const { socket } = testHub;
    await using writer = await startWriter(socket, { slots: 8 });
    await using slow = await startReader(socket, { lossy: true, hold: 1 });
    await using reads = await startReader(socket);
    await tell(writer, "send 3");
    slow.kill("SIGSTOP");
    await tell(writer, "send 1000");
    slow.kill("SIGCONT");
    await tell(writer, "send 5");
    await tell(writer, "end");
    assert.deepEqual(await resultOf(reads), {
      end: "end",
      first: 0,
      next: 1008,
      received: 1008,
      missed: 0,
      wrong: 0,
    });
    const { received, missed, wrong, next } = await resultOf(slow);
    assert.deepEqual([received + missed, wrong, next], [1008, 0, 1008]);
    assert.ok(missed >= 900);
  });

  it("wake a sleeping reader on a message, on the end, and on the writer's death", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using writer = await startWriter(testHub.socket, { slots: 2, whenWriterGone: "end" });
    using reader = await hub.openChannel("channel", { spinMs: 0 });
    using watched = await hub.observeChannel("channel");
    const asleep = () =>
      until("the reader sleeps", () => watched.statistics().readers[0]?.asleep === true);
    const first = reader.next(LATE);
    await asleep();
    await tell(writer, "send 1");
    using slot = await first;
    assert.equal(slot?.sequence, 0);
    const gone = assert.rejects(reader.next(LATE), { code: "PEER_GONE" });
    await asleep();
    await kill(writer);
    await gone;
    assert.equal(watched.statistics().writer, "gone");
    await until("the name is free", async () => (await hub.list()).length === 0);
    await using other = await startWriter(testHub.socket, { slots: 2 });
    using last = await hub.openChannel("channel", { spinMs: 0 });
    using watchedToo = await hub.observeChannel("channel");
    const end = last.next(LATE);
    await until("the reader sleeps", () => watchedToo.statistics().readers[0]?.asleep === true);
    await tell(other, "end");
    assert.equal(await end, undefined);
  });

  it("wake no process while they are idle", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const writers = await Promise.all(
      ["a", "b", "c", "d"].map((name) => hub.createChannel(name, { byteLength: 64, slots: 1 })),
    );
    const readers = await Promise.all(writers.map(({ label }) => hub.openChannel(label)));
    const held = writers.map((writer) => writer.tryLoan()?.commit());
    assert.deepEqual(held, [0, 0, 0, 0]);
    const slots = readers.map((reader) => reader.tryNext());
    const waits = [
      ...readers.map((reader) => reader.next()),
      ...writers.map((writer) => writer.loan()),
    ];
    for (const wait of waits) wait.catch(() => {});
    for (const { label } of writers) {
      using watched = await hub.observeChannel(label);
      await until("the reader sleeps", () => watched.statistics().readers[0]?.asleep === true);
    }
    // WHY turns of the event loop, and not switches of the thread: garbage collection adds to them.
    const turns = () => performance.nodeTiming.uvMetricsInfo.loopCount;
    const before = turns();
    await new Promise((resolve) => setTimeout(resolve, 500));
    // A timer of one millisecond would cause 500 of them.
    assert.ok(turns() - before < 100, `${turns() - before} turns`);
    for (const slot of slots) slot?.release();
    for (const end of [...readers, ...writers]) end.close();
    await Promise.allSettled(waits);
  });
});
