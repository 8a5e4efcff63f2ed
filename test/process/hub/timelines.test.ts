/** Timelines between processes: named on the hub, which ends them for all when their owner ends. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError, hasCode } from "../../../src/base/errors.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";

const OWNS = new URL("./actors/owns-timeline.js", import.meta.url);
const gone = (error: unknown) => hasCode(error, "PEER_GONE");

async function owner(testHub: TestHub, name: string, value: number): Promise<Actor> {
  const actor = new Actor(OWNS, { args: [testHub.socket, name, String(value)] });
  await actor.says();
  return actor;
}

describe("a timeline on the hub", () => {
  checkLeaks();

  it("is opened by name, even before it exists", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const opening = hub.openTimeline("steps");
    await using actor = await owner(testHub, "steps", 41);
    using timeline = await opening;
    await timeline.wait(41, { timeoutMs: 30_000 });
    assert.deepEqual([timeline.value, timeline.ended], [41n, false]);
    actor.goOn();
    await soon("it ends", assert.rejects(timeline.wait(42), gone));
    assert.equal(await actor.exited(), 0);
  });

  it("loses its name when its owner closes it", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const timeline = await hub.createTimeline("steps");
    using theirs = await hub.openTimeline("steps");
    assert.deepEqual(
      (await hub.list()).map(({ name, descriptor }) => [name, descriptor.content.kind]),
      [["steps", "timeline"]],
    );
    timeline.close();
    await until("its name is gone", async () => (await hub.list()).length === 0);
    assert.equal(theirs.ended, true);
    using again = await hub.createTimeline("steps");
    assert.equal(again.value, 0n);
  });

  it("is not opened as an array, nor an array as a timeline, nor for writing", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using timeline = await hub.createTimeline("steps");
    using array = await hub.create("frame", { dtype: "uint8", shape: [4], device: "host" });
    await array.publish();
    const wrong = (error: unknown) => hasCode(error, "WRONG_KIND");
    await assert.rejects(hub.open("steps"), wrong);
    await assert.rejects(hub.openTimeline("frame"), wrong);
    await assert.rejects(hub.openAny("steps", { access: "read-write" }), (error) =>
      hasCode(error, "READ_ONLY"),
    );
    await assert.rejects(hub.createTimeline("steps"), (error) => hasCode(error, "NAME_TAKEN"));
    assert.equal(timeline.value, 0n);
  });

  it("is closed with its hub", async () => {
    await using testHub = await TestHub.start();
    await using other = await testHub.connect();
    const hub = await testHub.connect();
    const timeline = await hub.createTimeline("steps");
    using theirs = await other.openTimeline("steps");
    await hub.close();
    assert.equal(timeline.open, false);
    await until("it ends", () => theirs.ended);
  });

  it("is not ended before its streams have signalled", async () => {
    await using testHub = await TestHub.start();
    await using other = await testHub.connect();
    const hub = await testHub.connect();
    using gate = hub.device("host").createTimeline();
    using stream = hub.device("host").createStream();
    const timeline = await hub.createTimeline("steps", { device: "host" });
    using theirs = await other.openTimeline("steps", { device: "host" });
    stream.wait(gate, 1);
    stream.signal(timeline, 5);
    const closing = hub.close();
    assert.equal(timeline.open, false);
    // By now the hub would have ended it, had it learned of the end.
    assert.equal((await other.list()).length, 1);
    assert.equal(theirs.ended, false);
    gate.signal(1);
    await theirs.wait(5, { timeoutMs: 30_000 });
    await closing;
    await until("it ends", () => theirs.ended);
    assert.deepEqual([theirs.read({ evenIfEnded: true }), (await other.list()).length], [5n, 0]);
  });

  it("stays until its process ends if its streams' state is unknown", async () => {
    await using testHub = await TestHub.start();
    await using other = await testHub.connect();
    const hub = await testHub.connect();
    using stream = hub.device("host").createStream();
    const timeline = await hub.createTimeline("steps", { device: "host" });
    using theirs = await other.openTimeline("steps", { device: "host" });
    stream.signal(timeline, 1);
    const { settle } = stream;
    stream.settle = () => {
      throw new CudaIpcError("DEVICE_LOST", "Cannot ask a stream: the device failed");
    };
    await hub.close();
    assert.deepEqual([theirs.ended, (await other.list()).length], [false, 1]);
    stream.settle = settle;
  });
});

describe("the owner of a timeline that is killed", () => {
  checkLeaks();

  it("leaves no CPU and no stream waiting", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using actor = await owner(testHub, "steps", 7);
    using timeline = await hub.openTimeline("steps");
    using stream = hub.device().createStream();
    using reached = hub.device().createStream();
    stream.wait(timeline, 8);
    reached.wait(timeline, 7);
    const waiting = assert.rejects(timeline.wait(9), /ended at 7 and will never reach 9/);
    const synchronizing = assert.rejects(stream.synchronize(), gone);
    actor.kill("SIGKILL");
    await soon("the CPU is released", waiting);
    await soon("the stream is released", synchronizing);
    await reached.synchronize({ timeoutMs: 30_000 });
    assert.deepEqual([timeline.read({ evenIfEnded: true }), timeline.ended], [7n, true]);
    await until("its name is gone", async () => (await hub.list()).length === 0);
  });
});
