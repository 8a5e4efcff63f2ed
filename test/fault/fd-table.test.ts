/**
 * A full table of open files, in the hub or in a client, fails one request. Nothing is lost, and
 * the hub disconnects nobody.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { type CudaIpcError, hasCode } from "../../src/base/errors.js";
import type { ChannelWriter } from "../../src/channel/channel-writer.js";
import type { Hub } from "../../src/client/hub.js";
import type { SharedArray } from "../../src/client/objects/shared-array.js";
import { Actor } from "../support/actor.js";
import { checkLeaks } from "../support/leak-check.js";
import { TestFolder } from "../support/test-folder.js";
import { TestHub } from "../support/test-hub.js";
import { until } from "../support/until.js";

const FILLS = new URL("../process/hub/actors/fills-fd-table.js", import.meta.url);
const STARTS = new URL("./actors/starts-hub-with-full-table.js", import.meta.url);

describe("a full table of open files", () => {
  checkLeaks();

  it("of the hub refuses requests that need a descriptor until there is room", async () => {
    await using testHub = await TestHub.start({ fdsMax: 96 });
    await using hub = await testHub.connect();
    const made = await createUntilRefused(hub);
    assert.ok(made.length > 10);
    const [first] = made as [SharedArray, ...SharedArray[]];
    await first.publish();
    await assert.rejects(hub.open(first.name), (error) => hasCode(error, "TOO_MANY_FDS"));
    const { objects, leases } = await hub.status();
    assert.deepEqual({ objects, leases }, { objects: made.length, leases: made.length });
    await assert.rejects(testHub.connect({ timeoutMs: 300 }));
    for (const each of made.splice(-8)) each.close();
    using array = await hub.open(first.name);
    assert.equal(array.object, first.object);
    await using other = await testHub.connect();
    assert.equal((await other.list()).length, made.length);
    for (const each of made) each.close();
  });

  it("of the hub cannot be caused by channels: the creator of too many gets an error", async () => {
    await using testHub = await TestHub.start({ fdsMax: 800 });
    await using greedy = await testHub.connect();
    await using other = await testHub.connect();
    using frame = await other.create("frame", { dtype: "int32", shape: [3] });
    await frame.publish();
    const channel = { byteLength: 8, readersMax: 64 } as const;
    const writers: ChannelWriter[] = [];
    const fill = async () => {
      for (;;) writers.push(await greedy.createChannel(`channel-${writers.length}`, channel));
    };
    await assert.rejects(fill(), (error: CudaIpcError) => {
      assert.equal(error.code, "LIMIT_EXCEEDED");
      assert.match(
        error.message,
        /the hub has 525 file descriptors of objects, and 131 more .+ limit of 600 \(limits\.hub\.descriptors\)/,
      );
      return true;
    });
    const arrays: SharedArray[] = [];
    const fillUp = async () => {
      for (;;)
        arrays.push(await greedy.create(`array-${arrays.length}`, { dtype: "int32", shape: [3] }));
    };
    await assert.rejects(fillUp(), (error) => hasCode(error, "LIMIT_EXCEEDED"));
    assert.deepEqual([writers.length, arrays.length], [4, 75]);
    using array = await other.open("frame");
    using reader = await other.openChannel("channel-0", { from: "oldest" });
    await using third = await testHub.connect();
    assert.equal((await third.list()).length, 80);
    writers[0]?.tryLoan()?.commit();
    assert.equal((await reader.next())?.sequence, 0);
    writers.pop()?.close();
    await until("there is room again", async () => (await third.list()).length === 79);
    using mine = await third.createChannel("mine", channel);
    assert.equal(mine.open, true);
    assert.equal(array.object, frame.object);
  });

  it("of a client fails only that client's open, and its lease is released", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using array = await hub.create("frame", { dtype: "int32", shape: [3] });
    await array.publish();
    await using actor = new Actor(FILLS, { args: [testHub.socket, "frame"], fdsMax: 64 });
    assert.deepEqual(await actor.says(), { code: "TOO_MANY_FDS", left: 0, elements: 3, leases: 3 });
    assert.equal(await actor.exited(), 0, actor.complaint);
    await until("its leases have ended", async () => (await hub.status()).leases === 1);
  });

  it("of a client that starts a hub fails the start, and does not end the client", async () => {
    using folder = new TestFolder();
    await using actor = new Actor(STARTS, { args: [folder.socket], fdsMax: 64 });
    assert.deepEqual(await actor.says(), { codes: ["TOO_MANY_FDS", "TOO_MANY_FDS"] });
    assert.equal(await actor.exited(), 0, actor.complaint);
  });
});

async function createUntilRefused(hub: Hub): Promise<SharedArray[]> {
  const made: SharedArray[] = [];
  for (;;) {
    try {
      made.push(await hub.create(`array-${made.length}`, { dtype: "int32", shape: [3] }));
    } catch (error) {
      assert.ok(hasCode(error, "TOO_MANY_FDS"), String(error));
      return made;
    }
  }
}
