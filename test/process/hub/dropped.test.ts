import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { setImmediate } from "node:timers/promises";
import type { Hub } from "../../../src/client/hub.js";
import { checkLeaks, collect } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const ARRAY = { dtype: "uint8", shape: [4] } as const;

async function createAll(hub: Hub): Promise<void> {
  await hub.put("array", Uint8Array.of(1, 2, 3, 4));
  await (await hub.createBundle("bundle", { weights: ARRAY })).publish();
  await hub.createChannel("channel", { ...ARRAY, slots: 2 });
  await hub.createTimeline("timeline");
}

async function openAll(hub: Hub): Promise<void> {
  await hub.open("array");
  await hub.openBundle("bundle");
  await hub.openChannel("channel");
  await hub.openTimeline("timeline");
}

/** The leases of each object. */
async function leases(hub: Hub): Promise<Record<string, number>> {
  const entries = await hub.list();
  return Object.fromEntries(entries.map(({ name, leases }) => [name, leases]));
}

describe("what the program drops without close()", () => {
  checkLeaks();

  it("stays until its hub is closed", async () => {
    await using testHub = await TestHub.start();
    await using watcher = await testHub.connect();
    const [creator, reader] = [await testHub.connect(), await testHub.connect()];
    await createAll(creator);
    await openAll(reader);
    // Long enough for a finalizer of something unreachable: two turns and two collections do it.
    for (let round = 0; round < 5; round += 1) {
      await setImmediate();
      collect();
    }
    const each = (count: number) => {
      return { array: count, bundle: count, channel: count, timeline: count };
    };
    // The reader's answer comes after all that it has sent before.
    await Promise.all([creator.status(), reader.status()]);
    assert.deepEqual(await leases(watcher), each(2));
    await reader.close();
    await until("the reader's leases end", async () => {
      const found = await leases(watcher);
      return Object.values(found).every((count) => count === 1);
    });
    assert.deepEqual(await leases(watcher), each(1));
    await creator.close();
    await until("nothing is left", async () => (await watcher.list()).length === 0);
  });
});
