/**
 * Everything that can be shared without a hub, except plain arrays: pools, growing memory, handles,
 * events and timelines.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { openShared } from "../../../src/doors/peer.js";
import { Device } from "../../../src/gpu/device.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestRuntime } from "../../support/test-runtime.js";
import { soon, until } from "../../support/until.js";

const SHARES = new URL("./actors/shares-things.js", import.meta.url);

type Documents = Readonly<Record<"pooled" | "growing" | "legacy" | "event" | "timeline", unknown>>;

async function sharer(
  ...steps: string[]
): Promise<{ readonly actor: Actor; readonly documents: Documents }> {
  const actor = new Actor(SHARES, { args: [JSON.stringify(steps)] });
  return { actor, documents: (await actor.says()) as Documents };
}

async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
}

describe("shared without a hub", () => {
  checkLeaks();

  it("memory of a pool is opened as an array, twice, and outlives its exporter", async () => {
    using _runtime = new TestRuntime();
    const { actor, documents } = await sharer();
    await using _ = actor;
    using device = Device.open("host");
    using one = (await openShared(documents.pooled, { device, access: "read-write" })).expectDType(
      "float32",
    );
    using other = (await openShared(documents.pooled, { device })).expectDType("float32");
    assert.equal(one.buffer.mechanism, "pool");
    assert.equal((await one.read())[999], 1099);
    await one.slice(0).write([-1]);
    assert.equal((await other.read())[0], -1);
    one.close();
    await kill(actor);
    assert.equal((await other.read())[1], 101);
    await assert.rejects(openShared(documents.pooled, { device }), (error) =>
      hasCode(error, "PEER_GONE"),
    );
  });

  it("growing memory is followed without moving", async () => {
    using _runtime = new TestRuntime();
    const { actor, documents } = await sharer("grow");
    await using _ = actor;
    using device = Device.open("host");
    using followed = await openShared(documents.growing, { kind: "growing", device });
    const { pointer } = followed.buffer;
    assert.deepEqual([followed.buffer.byteLength, followed.buffer.view(4095, 1)[0]], [4096, 1]);
    assert.equal(await followed.follow(), 4096);
    actor.goOn();
    assert.equal(await actor.says(), "grown");
    assert.equal(await followed.follow(), 100_000);
    assert.deepEqual([followed.buffer.pointer, followed.buffer.byteLength], [pointer, 100_000]);
    const bytes = new Uint8Array(100_000);
    await followed.buffer.read(0, bytes);
    assert.deepEqual([bytes[4095], bytes[4096], bytes[99_999]], [1, 2, 2]);
    await assert.rejects(followed.buffer.write(0, bytes), (error) => hasCode(error, "READ_ONLY"));
    await kill(actor);
    await assert.rejects(followed.follow(), (error) => hasCode(error, "PEER_GONE"));
    assert.equal(followed.buffer.view(99_999, 1)[0], 2);
  });

  it("memory with a handle is opened as the shared slice", async () => {
    using _runtime = new TestRuntime();
    const { actor, documents } = await sharer();
    await using _ = actor;
    using opened = (await openShared(documents.legacy)).expectDType("int16");
    assert.deepEqual([...(await opened.read())], [3, 4, 5]);
  });

  it("an event can be waited for after it was announced", async () => {
    using _runtime = new TestRuntime();
    const { actor, documents } = await sharer("record");
    await using _ = actor;
    using device = Device.open("host");
    using event = await openShared(documents.event, { kind: "event", device });
    await assert.rejects(event.synchronize(), (error) => hasCode(error, "EVENT_NOT_RECORDED"));
    actor.goOn();
    event.announce(await actor.says());
    await soon("the event is done", event.synchronize());
  });

  it("a timeline is ended by any waiter that notices the death of its owner", async () => {
    using _runtime = new TestRuntime();
    const { actor, documents } = await sharer("signal");
    await using _ = actor;
    using device = Device.open("host");
    using timeline = await openShared(documents.timeline, { kind: "timeline", device });
    using stream = device.createStream();
    actor.goOn();
    await timeline.wait(1, { timeoutMs: 30_000 });
    stream.wait(timeline, 2);
    const waiting = assert.rejects(timeline.wait(2), (error) => hasCode(error, "PEER_GONE"));
    assert.equal(await actor.says(), "signalled");
    await kill(actor);
    await soon("the CPU is released", waiting);
    await soon(
      "the stream is released",
      assert.rejects(stream.synchronize(), (error) => hasCode(error, "PEER_GONE")),
    );
    await until("it has ended", () => timeline.ended);
    await assert.rejects(openShared(documents.timeline, { kind: "timeline", device }), (error) =>
      hasCode(error, "PEER_GONE"),
    );
  });

  it("refuses to open an object as another kind", async () => {
    using _runtime = new TestRuntime();
    const { actor, documents } = await sharer();
    await using _ = actor;
    using device = Device.open("host");
    const wrong = (error: unknown) => hasCode(error, "WRONG_KIND");
    await assert.rejects(openShared(documents.timeline), wrong);
    await assert.rejects(openShared(documents.event, { kind: "buffer" }), wrong);
    await assert.rejects(openShared(documents.pooled, { kind: "timeline", device }), wrong);
    await assert.rejects(openShared(documents.timeline, { kind: "growing", device }), wrong);
    await assert.rejects(openShared(documents.growing, { kind: "event", device }), wrong);
  });
});
