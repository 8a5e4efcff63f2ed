import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { checkLeaks } from "../../support/leak-check.js";
import { until } from "../../support/until.js";
import { TakeoverRig } from "./takeover-rig.js";

const TAKEOVERS = 5;
const CLIENTS = 4;

/** Shares, waits, opens, checks and closes without a pause, until it is told to end; how often. */
async function work(hub: Hub, other: Hub, prefix: string, ended: () => boolean): Promise<number> {
  let rounds = 0;
  for (; !ended(); rounds += 1) {
    // WHY another each time: the reader's lease ends on another connection, maybe later than the next name is made.
    const name = `${prefix}-${rounds}`;
    const waiting = other.open(name);
    waiting.catch(() => {});
    const made = (await hub.create(name, { dtype: "int32", shape: [2] })).as("int32");
    await made.write([rounds, rounds + 1]);
    await made.publish();
    const opened = (await waiting).as("int32");
    assert.deepEqual([...(await opened.read())], [rounds, rounds + 1]);
    assert.ok((await hub.list()).some((object) => object.name === name));
    made.close();
    opened.close();
  }
  return rounds;
}

describe("clients that work all through several takeovers", () => {
  checkLeaks();

  it("lose nothing and see no error", async () => {
    await using rig = new TakeoverRig();
    let hub = await rig.serving();
    const kept = await rig.connect();
    const frame = (await kept.create("kept", { dtype: "int32", shape: [1] })).as("int32");
    await frame.write([42]);
    await frame.publish();
    const fds = rig.fdsOf(hub);
    const clients = await Promise.all(Array.from({ length: 2 * CLIENTS }, () => rig.connect()));
    let ended = false;
    const storms = Array.from({ length: CLIENTS }, (_, index) =>
      work(clients[2 * index] as Hub, clients[2 * index + 1] as Hub, `storm-${index}`, () => ended),
    );
    const all = Promise.all(storms);
    // It is awaited below; what fails before that must not be taken for forgotten.
    all.catch(() => {});
    try {
      for (let count = 0; count < TAKEOVERS; count += 1) hub = await rig.successorOf(hub);
    } catch (error) {
      assert.fail(`${String(error)}\n${rig.logs}`);
    } finally {
      ended = true;
    }
    const rounds = await all.catch((error: unknown) => assert.fail(`${String(error)}\n${rig.logs}`));
    for (const count of rounds) assert.ok(count > 0);
    await Promise.all(clients.map((client) => client.close()));
    const { leases, objects, waitingOpens } = await kept.status();
    assert.deepEqual({ leases, objects, waitingOpens }, { leases: 1, objects: 1, waitingOpens: 0 });
    await until("all else is closed", () => rig.fdsOf(hub) === fds);
    const other = await rig.connect();
    const opened = (await other.open("kept", { wait: false })).as("int32");
    assert.deepEqual([...(await opened.read())], [42]);
    opened.close();
    frame.close();
    await other.close();
    await kept.close();
  });
});
