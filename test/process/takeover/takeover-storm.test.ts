import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { checkLeaks } from "../../support/leak-check.js";
import { until } from "../../support/until.js";
import { TakeoverRig } from "./takeover-rig.js";

const TAKEOVERS = 5;
const CLIENTS = 4;

/** Shares, waits, opens, checks and closes without a pause, until it is told to end; how often. */
async function work(hub: Hub, other: Hub, name: string, ended: () => boolean): Promise<number> {
  let rounds = 0;
  for (; !ended(); rounds += 1) {
    const waiting = other.open(name);
    const made = (await hub.create(name, { dtype: "int32", shape: [2] })).as("int32");
    await made.write([rounds, -rounds]);
    await made.publish();
    const opened = (await waiting).as("int32");
    assert.deepEqual([...(await opened.read())], [rounds, -rounds]);
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
    try {
      for (let count = 0; count < TAKEOVERS; count += 1) hub = await rig.successorOf(hub);
    } finally {
      ended = true;
    }
    for (const rounds of await Promise.all(storms)) assert.ok(rounds > 0);
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
