/** Which workers a bridge claims for other machines, and how. Needs no other machine. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { LentReader } from "../../../src/bridge/link/link-server.js";
import { ClaimServer } from "../../../src/bridge/services/claim-server.js";
import type { Hub } from "../../../src/client/hub.js";
import { checkLeaks } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";
import { ServiceRig } from "../service/service-rig.js";

const SERVICE = "double";
const SHARED = { with: "all", machines: true } as const;
const OWN = process.geteuid?.() ?? 0;

/** A bridge's side of one link that claims workers, and what it has claimed. */
function claimsOn(hub: Hub, workers: readonly number[]) {
  const lent: LentReader[] = [];
  const channels = {
    lendOpened: async (_: string, open: () => Promise<LentReader>) => {
      lent.push(await open());
      return { channel: lent.length, lent: lent.at(-1) };
    },
  };
  const rule = { isAnnounced: () => false, uid: OWN, workers: new Set(workers) };
  const link = () => assert.fail("nothing is carried here");
  const server = new ClaimServer({ hub, rule, channels: channels as never, link });
  const claim = async (except: string[] = []) => {
    const { name } = await server.claim({ op: "claim", service: SERVICE, except } as never);
    return name;
  };
  const close = () => {
    for (const it of lent.splice(0)) it.close();
  };
  return { claim, close };
}

describe("a bridge that claims workers for other machines", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  async function workerName(hub: Hub, known: readonly string[] = []): Promise<string> {
    await rig.worker({ sharing: SHARED });
    const names = (await hub.list()).map(({ name }) => name);
    return names.find((name) => !known.includes(name)) ?? "";
  }

  it("takes none of a user whose workers it may not use", async () => {
    const hub = await rig.connect();
    const worker = await workerName(hub);
    const refusing = claimsOn(hub, [OWN + 1]);
    await assert.rejects(refusing.claim(), { code: "NOT_FOUND" });
    const claims = claimsOn(hub, [OWN + 1, OWN]);
    assert.equal(await claims.claim(), worker);
    claims.close();
  });

  it("does not wait for a worker that says nothing, and asks it last from then on", async (t) => {
    const hub = await rig.connect();
    const first = await workerName(hub);
    const [silent = "", other = ""] = [first, await workerName(hub, [first])].sort();
    const open = hub.openChannel.bind(hub);
    const asked: string[] = [];
    t.mock.method(hub, "openChannel", (async (...given) => {
      asked.push(given[0]);
      const { signal } = given[1] ?? {};
      if (given[0] !== silent) return open(...given);
      return new Promise((_, reject) => {
        signal?.addEventListener("abort", () => reject(new Error("another one was faster")));
      });
    }) as typeof open);
    const claims = claimsOn(hub, [OWN]);
    assert.equal(await soon("the other one", claims.claim()), other);
    assert.deepEqual(asked.splice(0).slice(0, 2), [silent, other]);
    claims.close();
    // WHY by name: the offer that was claimed has one lease, too, until its worker has closed it.
    const next = other.replace(/:0$/, ":1");
    await until("the other worker has only its next offer", async () => {
      const offers = (await hub.list()).filter(({ published }) => published);
      return String(offers.map(({ name }) => name)) === String([silent, next]);
    });
    assert.equal(await soon("the other one", claims.claim()), next);
    assert.equal(asked[0], next);
    claims.close();
  });

  it("gives back what it does not use", async () => {
    const hub = await rig.connect();
    const worker = await workerName(hub);
    const claims = claimsOn(hub, [OWN]);
    assert.equal(await claims.claim(), worker);
    const [, id = ""] = /:(w[^:]+):/.exec(worker) ?? [];
    await assert.rejects(claims.claim([id.slice(1)]), { code: "NOT_FOUND" });
    claims.close();
    await until("the worker is free", async () => (await hub.list()).length === 1);
  });
});
