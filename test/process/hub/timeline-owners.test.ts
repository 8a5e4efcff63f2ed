/** Timelines whose owners follow each other, and the values of those that have none. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";

const OWNS = new URL("./actors/owns-timeline.js", import.meta.url);
const gone = (error: unknown) => hasCode(error, "PEER_GONE");

async function owner(
  testHub: TestHub,
  { value, whenOwnerGone }: { value: number; whenOwnerGone: "end" | "wait" },
): Promise<Actor> {
  const actor = new Actor(OWNS, { args: [testHub.socket, "steps", String(value), whenOwnerGone] });
  await actor.says();
  return actor;
}

async function names(hub: Hub): Promise<string[]> {
  return (await hub.list()).map(({ name }) => name);
}

async function nextHub(hub: Hub): Promise<void> {
  const { pid } = await hub.status();
  process.kill(pid, "SIGKILL");
  await until("the next hub answers", async () => (await hub.status()).pid !== pid);
}

describe("the value of a timeline", () => {
  checkLeaks();

  it("is not read after its owner was killed, unless asked for", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using actor = await owner(testHub, { value: 7, whenOwnerGone: "end" });
    using timeline = await hub.openTimeline("steps");
    assert.deepEqual([timeline.value, timeline.read()], [7n, 7n]);
    actor.kill("SIGKILL");
    await until("it ends", () => timeline.ended);
    assert.throws(() => timeline.value, {
      code: "PEER_GONE",
      message:
        'Cannot read timeline "steps": it ended at 7: its owner closed it or is gone. ' +
        "read({ evenIfEnded: true }) returns the value",
    });
    assert.throws(() => timeline.read({ evenIfEnded: false }), gone);
    assert.equal(timeline.read({ evenIfEnded: true }), 7n);
    assert.deepEqual([timeline.ended, timeline.awaited], [true, false]);
  });
});

describe("a timeline that waits for its next owner", () => {
  checkLeaks();

  it("is resumed by another process, and its waiters wait on", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using actor = await owner(testHub, { value: 7, whenOwnerGone: "wait" });
    using timeline = await hub.openTimeline("steps");
    using stream = hub.device("host").createStream();
    stream.wait(timeline, 8);
    const waiting = timeline.wait(8);
    actor.kill("SIGKILL");
    await until("its owner is awaited", () => timeline.awaited);
    assert.throws(() => timeline.value, /its owner left it at 7, and no other process has resumed/);
    assert.deepEqual([timeline.ended, timeline.read({ evenIfEnded: true })], [false, 7n]);
    await assert.rejects(timeline.wait(8, { timeoutMs: 0 }), {
      code: "TIMEOUT",
      message: new RegExp(
        `it has reached 7, and its next owner is awaited; the hub is at ${testHub.socket}$`,
      ),
    });
    await using next = await testHub.connect();
    using mine = await next.resumeTimeline("steps");
    assert.deepEqual([mine.value, timeline.value, timeline.awaited], [7n, 7n, false]);
    assert.throws(() => mine.signal(7), RangeError);
    using own = await hub.createTimeline("own");
    const where = { code: "TIMEOUT", message: new RegExp(`; the hub is at ${testHub.socket}$`) };
    for (const each of [mine, own]) await assert.rejects(each.wait(9, { timeoutMs: 0 }), where);
    mine.signal(8);
    await soon("the CPU continues", waiting);
    await soon("the stream continues", stream.synchronize());
    assert.equal(timeline.value, 8n);
  });

  it("stays when its owner closes it, without other processes too, until it is removed", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const first = await hub.createTimeline("steps", { whenOwnerGone: "wait" });
    first.signal(3);
    first.close();
    assert.deepEqual(await names(hub), ["steps"]);
    const second = await hub.resumeTimeline("steps");
    using reader = await hub.openTimeline("steps");
    second.signal(4);
    second.close();
    await until("its owner is awaited", () => reader.awaited);
    await hub.remove("steps");
    await until("it ends", () => reader.ended);
    assert.equal(reader.read({ evenIfEnded: true }), 4n);
    await assert.rejects(reader.wait(5), gone);
    assert.deepEqual(await names(hub), []);
  });

  it("has one owner at a time, and only if it was made to have several", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using other = await testHub.connect();
    using first = await hub.createTimeline("steps", { whenOwnerGone: "wait" });
    using _plain = await hub.createTimeline("plain");
    await using array = await hub.create("frame", { dtype: "uint8", shape: [4], device: "host" });
    await array.publish();
    await assert.rejects(other.resumeTimeline("steps"), { code: "IN_USE" });
    await assert.rejects(other.resumeTimeline("plain"), { code: "READ_ONLY" });
    await assert.rejects(other.resumeTimeline("frame"), { code: "WRONG_KIND" });
    await assert.rejects(other.resumeTimeline("none", { wait: false }), { code: "NOT_FOUND" });
    first.signal(1);
    assert.equal(first.value, 1n);
  });

  it("is continued by the next hub, with and without an owner", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using reader = await (async () => {
      const owned = await hub.createTimeline("owned", { whenOwnerGone: "wait" });
      owned.signal(2);
      const left = await hub.createTimeline("left", { whenOwnerGone: "wait" });
      left.signal(5);
      left.close();
      return hub.openTimeline("owned");
    })();
    await nextHub(hub);
    assert.equal(reader.value, 2n);
    assert.deepEqual(await names(hub), ["left", "owned"]);
    await assert.rejects(hub.resumeTimeline("owned"), { code: "IN_USE" });
    using left = await hub.resumeTimeline("left");
    left.signal(6);
    assert.equal(left.value, 6n);
  });
});
