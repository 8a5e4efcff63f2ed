import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const HOST = new URL("./actors/thread-host.js", import.meta.url);
const STAGES = ["connect", "hold", "transfer", "wait"];

async function tell(actor: Actor, deed: string): Promise<unknown> {
  actor.goOn(deed);
  return actor.says();
}

async function holdsNothing(hub: Hub): Promise<boolean> {
  const { objects, leases, waitingOpens, clients } = await hub.status();
  return objects + leases + waitingOpens === 0 && clients === 1;
}

describe("a process whose worker thread uses a hub", () => {
  checkLeaks();

  for (const [end, code] of [
    ["terminate", 1],
    ["exit", 0],
    ["throw", 1],
  ] as const) {
    for (const stage of STAGES) {
      it(`goes on after the thread ended by ${end} (${stage}), and the hub gets back what it held`, async () => {
        await using testHub = await TestHub.start();
        await using hub = await testHub.connect();
        await using actor = new Actor(HOST, { args: [testHub.socket] });
        const before = await tell(actor, "fds");
        await tell(actor, `start 1 ${stage}`);
        assert.deepEqual(await tell(actor, end), [code], actor.complaint);
        await until("the hub has everything back", () => holdsNothing(hub));
        assert.equal(await tell(actor, "fds"), before);
      });
    }
  }

  for (const [end, code] of [
    ["main exits", 0],
    ["main throws", 1],
  ] as const) {
    for (const stage of STAGES) {
      it(`ends with exit code ${code} when its ${end} (${stage})`, async () => {
        await using testHub = await TestHub.start();
        await using hub = await testHub.connect();
        await using actor = new Actor(HOST, { args: [testHub.socket] });
        await tell(actor, `start 3 ${stage}`);
        actor.goOn(end);
        assert.equal(await actor.exited(), code, actor.complaint);
        await until("the hub has everything back", () => holdsNothing(hub));
      });
    }
  }
});
