/** Two machines as network namespaces of one host, and a link between them that is cut. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { TestNetwork } from "../../support/machines/test-network.js";
import { untilCopying } from "../../support/machines/until-copying.js";
import { soon, until } from "../../support/until.js";

const BYTES = 128 * 1024 * 1024;

const isSkipped = skipWithoutEngines || TestNetwork.whyNot();

// WHY one after the other: what one computes would delay what the other must do in time.
describe("the network between two machines", { skip: isSkipped }, () => {
  it("carries an array, and a cut that ends in time only delays it", async () => {
    await using site = await twoNetworks();
    const { opening } = await beginFetch(site);
    site.network.plug(false);
    site.one.goOn();
    await new Promise((resolve) => setTimeout(resolve, 3000));
    site.network.plug(true);
    using copy = await soon("the copy is there", opening);
    const bytes = await copy.read();
    assert.equal(bytes[BYTES - 1], 77);
    assert.equal(Buffer.from(bytes.buffer).indexOf(0), -1);
  });

  it("ends a fetch with PEER_GONE if it stays cut, and nothing is left", async () => {
    await using site = await twoNetworks();
    const { opening, hub } = await beginFetch(site);
    site.network.plug(false);
    site.one.goOn();
    await assert.rejects(soon("the open ends", opening), { code: "PEER_GONE" });
    await until("nothing of it is left", async () => (await hub.list()).length === 0);
  });
});

interface Site extends AsyncDisposable {
  readonly network: TestNetwork;
  readonly one: TestMachine;
  readonly other: TestMachine;
}

/** NATS is at the switch, so a machine that is cut off has no names either. */
async function twoNetworks(): Promise<Site> {
  const network = new TestNetwork();
  const nats = await TestNats.start(["-js"], network.address);
  const args = ["--announce", "*"];
  const one = await TestMachine.start("one", nats, { args, within: network.join() });
  const other = await TestMachine.start("other", nats, { within: network.join() });
  return {
    network,
    one,
    other,
    async [Symbol.asyncDispose]() {
      await other[Symbol.asyncDispose]();
      await one[Symbol.asyncDispose]();
      await nats[Symbol.asyncDispose]();
      network[Symbol.dispose]();
    },
  };
}

async function beginFetch({ one, other }: Site) {
  const values = new Uint8Array(BYTES).fill(1);
  values[BYTES - 1] = 77;
  const hubOfOne = await one.connect();
  (await hubOfOne.put("large", values, { lifetime: "pinned" })).close();
  await hubOfOne.close();
  await one.says('announced: "large"');
  one.hold();
  const hub = await other.connect();
  const opening = hub.open("large", { from: "any", dtype: "uint8" });
  opening.catch(() => {});
  await untilCopying(other);
  return { opening, hub };
}
