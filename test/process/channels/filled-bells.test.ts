/**
 * A holder fills the bells of a channel and makes them blocking. This blocks neither the hub nor
 * any process that rings or hears them.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { withoutAio } from "../../support/without-aio.js";
import { kill, resultOf, startReader, startWriter, tell } from "./channel-rig.js";

const FILLS = new URL("./actors/fills-bells.js", import.meta.url);
const MESSAGES = 1000;
/** WHY no spinning: readers must sleep and be woken by their bells. */
const SLEEPY = { spinMs: 0 };

async function filling(testHub: TestHub, role: "reader" | "writer"): Promise<Actor> {
  const actor = new Actor(FILLS, { args: [testHub.socket, "channel", role] });
  const { bells } = (await actor.says()) as { readonly bells: number };
  assert.equal(bells, role === "reader" ? 2 : 4);
  return actor;
}

/** Fails with TIMEOUT if the hub is blocked. */
async function checkServed(hub: Hub): Promise<void> {
  const options = { timeoutMs: 10_000 };
  using made = await hub.create("bystander", { dtype: "int32", shape: [4], ...options });
  await made.publish(options);
  using opened = await hub.open("bystander", options);
  assert.equal(opened.elementCount, 4);
}

for (const within of [[], withoutAio]) {
  const words = within.length === 0 ? "" : " and without AIO";
  describe(`bells that a holder has filled and made blocking${words}`, () => cases(within));
}

/** @param within runs the hub and the other processes */
function cases(within: readonly string[]): void {
  checkLeaks();
  it("block neither the writer nor another reader nor the hub if the holder is a reader", {
    timeout: 100_000,
  }, async () => {
    await using testHub = await TestHub.start({ log: true, within: () => within });
    await using hub = await testHub.connect();
    const asked = { slots: 2, readersMax: 3, whenFull: "wait" };
    await using writer = await startWriter(testHub.socket, asked, "create", within);
    await using reader = await startReader(testHub.socket, SLEEPY, within);
    await using attacker = await filling(testHub, "reader");
    assert.deepEqual(await tell(writer, `send ${MESSAGES}`), { committed: MESSAGES, dropped: 0 });
    await checkServed(hub);
    // The hub rings the room bell, which is full and blocking.
    await kill(attacker);
    await until(
      "the hub knows of its end",
      async () => (await hub.inspect("channel")).holders.length === 2,
    );
    await checkServed(hub);
    assert.deepEqual(await tell(writer, `send ${MESSAGES}`), {
      committed: 2 * MESSAGES,
      dropped: 0,
    });
    assert.equal(await tell(writer, "end"), "ended");
    const { end, received, missed, wrong } = await resultOf(reader);
    assert.deepEqual([end, received, missed, wrong], ["end", 2 * MESSAGES, 0, 0]);
    const { troubles } = await hub.status();
    const lines = readFileSync(testHub.folder.file("log"), "utf8").split("\n");
    const logged = lines.filter((line) => line.includes("without asynchronous I/O"));
    assert.deepEqual([troubles.length, logged.length], within.length === 0 ? [0, 0] : [1, 1]);
    if (within.length > 0)
      assert.match(troubles[0] ?? "", /because all of fs\.aio-max-nr is taken\. Raise/);
  });

  it("block neither the readers nor the hub if the holder is the writer", {
    timeout: 100_000,
  }, async () => {
    await using testHub = await TestHub.start({ within: () => within });
    await using hub = await testHub.connect();
    await using attacker = await filling(testHub, "writer");
    await using one = await startReader(testHub.socket, SLEEPY, within);
    await using other = await startReader(testHub.socket, {}, within);
    await checkServed(hub);
    // The hub rings all bells, which are full and blocking.
    await kill(attacker);
    for (const reader of [one, other]) {
      const { end, received } = await resultOf(reader);
      assert.deepEqual([end, received], ["PEER_GONE", 0]);
    }
    await checkServed(hub);
    assert.equal((await hub.status()).pid, testHub.pid);
  });
}
