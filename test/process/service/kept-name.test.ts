/** The name of a service is its user's while its only worker makes another offer. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { serve } from "../../../src/service/service.js";
import { requestName } from "../../../src/service/service-names.js";
import { checkLeaks } from "../../support/leak-check.js";
import { soon, until } from "../../support/until.js";
import { MESSAGE, SERVICE, ServiceRig } from "./service-rig.js";

const PLAN = { request: MESSAGE, reply: MESSAGE };

/** The worker's hub, which is asked for no second offer before `goOn`, or the worker's end. */
function holdOffers(hub: Hub, fails = 0) {
  const names: string[] = [];
  const make = hub.createOffer.bind(hub);
  let goOn = () => {};
  const mayGoOn = new Promise<void>((resolve) => {
    goOn = resolve;
  });
  hub.createOffer = async (name, device, options) => {
    names.push(name);
    options.signal?.addEventListener("abort", goOn);
    if (names.length > 1) await mayGoOn;
    if (names.length > 1 && names.length <= 1 + fails) throw new Error("no room");
    return make(name, device, options);
  };
  return { names, goOn };
}

describe("a service with one worker", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  /** The names of the service's channels that are not of requests. */
  async function kept(): Promise<string[]> {
    const hub = await rig.connect();
    const names = (await hub.list()).map(({ name }) => name);
    return names.filter((name) => !name.endsWith(requestName("")));
  }

  for (const fails of [0, 1]) {
    const how = fails > 0 ? ", and tries again after a failure" : "";
    it(`has its name while it replaces the offer of a silent client${how}`, async () => {
      const hub = await rig.connect();
      const { names, goOn } = holdOffers(hub, fails);
      await using _ = await serve(hub, SERVICE, { ...PLAN, claimTimeoutMs: 20 }, () => {});
      const [first = ""] = names;
      using _silent = await (await rig.connect()).openChannel(first);
      await until("the worker makes another offer", () => names.length === 2);
      assert.deepEqual(await kept(), [first]);
      goOn();
      await until("only the last offer is there", async () => {
        const [name, ...others] = await kept();
        return others.length === 0 && name === names.at(-1) && names.length === 2 + fails;
      });
    });
  }

  it("has its name while its only client leaves", async () => {
    const hub = await rig.connect();
    const { names, goOn } = holdOffers(hub);
    await using service = await serve(hub, SERVICE, { ...PLAN, clientsMax: 1 }, () => {});
    const client = await rig.client();
    using _ = await client.request((slot) => slot.array.write(new Float64Array(8)));
    assert.deepEqual(await kept(), names);
    await client.close();
    await until("the worker makes another offer", () => names.length === 2);
    assert.equal(service.clients, 0);
    assert.deepEqual(await kept(), names.slice(0, 1));
    goOn();
    await until("only the next offer is there", async () => {
      return (await kept()).join() === names[1];
    });
  });

  it("gives its name back when it closes meanwhile", async () => {
    const hub = await rig.connect();
    const { names, goOn } = holdOffers(hub);
    const service = await serve(hub, SERVICE, { ...PLAN, claimTimeoutMs: 20 }, () => {});
    using _silent = await (await rig.connect()).openChannel(names[0] as string);
    await until("the worker makes another offer", () => names.length === 2);
    const closed = service.close();
    goOn();
    await soon("the service is closed", closed);
    assert.deepEqual(await kept(), []);
  });
});
