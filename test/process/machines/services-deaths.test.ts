/** Each part of two linked machines ends while a worker of one works for a client of the other. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { connectService, type ServiceClient } from "../../../src/service/service-client.js";
import type { ServiceMessage } from "../../../src/service/service-message.js";
import type { Actor } from "../../support/actor.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { soon, until } from "../../support/until.js";
import { ask, asked, SERVICE, startWorker } from "../service/service-rig.js";

interface Site extends AsyncDisposable {
  readonly nats: TestNats;
  readonly one: TestMachine;
  readonly other: TestMachine;
  readonly hubOfOther: Hub;
  /** On machine "one". It works on the request `held`. */
  readonly worker: Actor;
  readonly held: Promise<ServiceMessage>;
  /** On machine "other". It sends no request to a second worker. */
  readonly client: ServiceClient;
}

async function workingMachines(): Promise<Site> {
  const nats = await TestNats.start();
  const one = await TestMachine.start("one", nats);
  const other = await TestMachine.start("other", nats);
  const hubOfOther = await other.connect();
  const sharing = { machines: true } as const;
  const worker = await startWorker(one.hub.socket, SERVICE, { sharing, concurrency: 2 });
  const client = connectService(hubOfOther, SERVICE, { machine: "any", policy: "fail" });
  const held = asked(client, { op: "hold", id: 1, timeoutMs: 120_000 });
  held.catch(() => {});
  assert.deepEqual(await worker.says(), { began: 1 });
  return {
    ...{ nats, one, other, hubOfOther, worker, client, held },
    async [Symbol.asyncDispose]() {
      await client.close();
      await hubOfOther.close().catch(() => {});
      await worker[Symbol.asyncDispose]();
      await other[Symbol.asyncDispose]();
      await one[Symbol.asyncDispose]();
      await nats[Symbol.asyncDispose]();
    },
  };
}

/** The client is told once, and the worker, too. */
async function areTold({ held, worker }: Site): Promise<void> {
  await assert.rejects(soon("the request ends", held), { code: "PEER_GONE" });
  const said = (await worker.says()) as { readonly aborted?: number; readonly code?: string };
  assert.deepEqual([said.aborted, said.code], [1, "PEER_GONE"]);
}

async function isFinished({ held, worker }: Site): Promise<void> {
  worker.goOn("release");
  using reply = await soon("the reply", held);
  assert.equal((reply.json as { readonly id: number }).id, 1);
}

// WHY together: they mostly wait.
describe("while another machine works on a request", {
  skip: skipWithoutEngines,
  concurrency: 3,
}, () => {
  for (const side of ["one", "other"] as const)
    it(`the bridge of machine "${side}" is killed: PEER_GONE; the next one goes on`, async () => {
      await using site = await workingMachines();
      await site[side].killBridge();
      await areTold(site);
      site[side].startBridge();
      await site[side].bridged();
      assert.equal((await ask(site.client, { id: 2 })).id, 2);
      await until("nothing is left of the first link", async () => {
        const names = (await site.hubOfOther.list()).map(({ name }) => name);
        return names.length === 2;
      });
    });

  it("the bridge of its machine is interrupted: PEER_GONE at once", async () => {
    await using site = await workingMachines();
    site.one.signalBridge("SIGTERM");
    await areTold(site);
    assert.equal(await site.one.bridgeEnded(), 0);
    await assert.rejects(asked(site.client, { timeoutMs: 1000 }), {
      code: "TIMEOUT",
      message: /no other machine has announced workers of it/,
    });
  });

  it("NATS is killed: the work goes on, and workers are found after its return", async () => {
    await using site = await workingMachines();
    await site.nats.kill();
    await site.other.says("NATS does not answer");
    assert.equal((await ask(site.client, { id: 2 })).id, 2);
    await isFinished(site);
    await site.nats.resume();
    const later = connectService(site.hubOfOther, SERVICE, { machine: "any" });
    try {
      assert.equal((await ask(later, { id: 3 })).id, 3);
    } finally {
      await later.close();
    }
  });

  for (const side of ["one", "other"] as const)
    it(`the hub of machine "${side}" is killed, the next one starts: work goes on`, async () => {
      await using site = await workingMachines();
      site[side].hub.kill("SIGKILL");
      assert.equal((await ask(site.client, { id: 2 })).id, 2);
      await isFinished(site);
    });

  it("the hub of its machine ends: PEER_GONE", async () => {
    await using site = await workingMachines();
    const hubOfOne = await site.one.connect();
    await hubOfOne.stop({ force: true });
    await hubOfOne.close();
    await assert.rejects(soon("the request ends", site.held), { code: "PEER_GONE" });
    assert.equal(await site.one.bridgeEnded(), 1);
  });
});
