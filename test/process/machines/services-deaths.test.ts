/** Each part of two linked machines ends while a worker of one works for a client of the other. */
import assert from "node:assert/strict";
import { after, afterEach, before, describe, it } from "node:test";
import { connectService, type ServiceClient } from "../../../src/service/service-client.js";
import type { ServiceMessage } from "../../../src/service/service-message.js";
import type { Actor } from "../../support/actor.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { restore, startShared } from "../../support/machines/shared-site.js";
import type { TwoMachines } from "../../support/machines/two-machines.js";
import { soon, until, untilRejects } from "../../support/until.js";
import { ask, asked, SERVICE, startWorker } from "../service/service-rig.js";

interface Held extends AsyncDisposable {
  /** On machine "one". It works on the request `held`. */
  readonly worker: Actor;
  readonly held: Promise<ServiceMessage>;
  /** On machine "other". It sends no request to a second worker. */
  readonly client: ServiceClient;
}

async function holding({ one, hubOfOther }: TwoMachines): Promise<Held> {
  const sharing = { machines: true } as const;
  const worker = await startWorker(one.hub.socket, SERVICE, { sharing, concurrency: 2 });
  const client = connectService(hubOfOther, SERVICE, { machine: "any", policy: "fail" });
  const held = asked(client, { op: "hold", id: 1, timeoutMs: 120_000 });
  held.catch(() => {});
  assert.deepEqual(await worker.says(), { began: 1 });
  return {
    ...{ worker, client, held },
    async [Symbol.asyncDispose]() {
      await client.close();
      await worker[Symbol.asyncDispose]();
    },
  };
}

/** The client is told once, and the worker, too. */
async function areTold({ held, worker }: Held): Promise<void> {
  await assert.rejects(soon("the request ends", held), { code: "PEER_GONE" });
  const said = (await worker.says()) as { readonly aborted?: number; readonly code?: string };
  assert.deepEqual([said.aborted, said.code], [1, "PEER_GONE"]);
}

async function isFinished({ held, worker }: Held): Promise<void> {
  worker.goOn("release");
  using reply = await soon("the reply", held);
  assert.equal((reply.json as { readonly id: number }).id, 1);
}

describe("while another machine works on a request", { skip: skipWithoutEngines }, () => {
  let site: TwoMachines;

  before(async () => {
    site = await startShared({ args: [] });
  });
  afterEach(() => restore(site));
  after(() => site?.[Symbol.asyncDispose]());

  for (const side of ["one", "other"] as const)
    it(`the bridge of machine "${side}" is killed: PEER_GONE; the next one goes on`, async () => {
      await using work = await holding(site);
      await site[side].killBridge();
      await areTold(work);
      site[side].startBridge();
      await site[side].bridged();
      assert.equal((await ask(work.client, { id: 2 })).id, 2);
      await until("nothing is left of the first link", async () => {
        const names = (await site.hubOfOther.list()).map(({ name }) => name);
        return names.length === 2;
      });
    });

  it("the bridge of its machine is interrupted: PEER_GONE at once", async () => {
    await using work = await holding(site);
    site.one.signalBridge("SIGTERM");
    await areTold(work);
    assert.equal(await site.one.bridgeEnded(), 0);
    const found = /no other machine has announced workers of it/;
    await untilRejects({ code: "TIMEOUT", message: found }, (timeoutMs) =>
      asked(work.client, { timeoutMs }),
    );
  });

  it("NATS is killed: the work goes on, and workers are found after its return", async () => {
    await using work = await holding(site);
    await site.nats.kill();
    await site.other.says("NATS does not answer");
    assert.equal((await ask(work.client, { id: 2 })).id, 2);
    await isFinished(work);
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
      await using work = await holding(site);
      site[side].hub.kill("SIGKILL");
      assert.equal((await ask(work.client, { id: 2 })).id, 2);
      await isFinished(work);
    });
});

it("a request ends with PEER_GONE if the hub of its machine ends", {
  skip: skipWithoutEngines,
}, async () => {
  await using site = await startShared({ args: [] });
  await using work = await holding(site);
  const hubOfOne = await site.one.connect();
  await hubOfOne.stop({ force: true });
  await hubOfOne.close();
  await assert.rejects(soon("the request ends", work.held), { code: "PEER_GONE" });
  assert.equal(await site.one.bridgeEnded(), 1);
});
