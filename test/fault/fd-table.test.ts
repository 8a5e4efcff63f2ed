/** A full table of open files, in the hub or in a client, is an error of one request; nothing is lost and nobody hung up on. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../src/base/errors.js";
import type { Hub } from "../../src/client/hub.js";
import type { SharedArray } from "../../src/client/shared-array.js";
import { Actor } from "../support/actor.js";
import { checkLeaks } from "../support/leak-check.js";
import { TestHub } from "../support/test-hub.js";
import { until } from "../support/until.js";

const FILLS = new URL("../process/hub/actors/fills-fd-table.js", import.meta.url);

describe("a full table of open files", () => {
  checkLeaks();

  it("of the hub refuses what needs a descriptor, and everything goes on once there is room", async () => {
    await using testHub = await TestHub.start({ fdsMax: 64 });
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

  it("of a client fails its open alone, whose lease goes back", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    using array = await hub.create("frame", { dtype: "int32", shape: [3] });
    await array.publish();
    await using actor = new Actor(FILLS, { args: [testHub.socket, "frame"], fdsMax: 64 });
    assert.deepEqual(await actor.says(), { code: "TOO_MANY_FDS", left: 0, elements: 3, leases: 3 });
    assert.equal(await actor.exited(), 0, actor.complaint);
    await until("its leases have ended", async () => (await hub.status()).leases === 1);
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
