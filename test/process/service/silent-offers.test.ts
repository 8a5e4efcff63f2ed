/** Offers that say nothing, or say hello and read no requests, hold up no other worker. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { ChannelWriter } from "../../../src/channel/channel-writer.js";
import { encodeEnvelope } from "../../../src/service/envelope.js";
import { slotsOf } from "../../../src/service/link-window.js";
import { factsMessage } from "../../../src/service/service-facts.js";
import { replyName } from "../../../src/service/service-names.js";
import { checkLeaks } from "../../support/leak-check.js";
import { until } from "../../support/until.js";
import { ask, asked, MESSAGE, SERVICE, ServiceRig } from "./service-rig.js";

const META = { metaBytesMax: 1100 } as const;

describe("an offer of a service that says nothing more", () => {
  let rig: ServiceRig;
  checkLeaks(async () => rig[Symbol.asyncDispose]());
  beforeEach(async () => {
    rig = await ServiceRig.start();
  });

  /** Offers of as many workers, whose names come before those of workers. */
  async function offers(count: number, says: "nothing" | "hello"): Promise<ChannelWriter[]> {
    const hub = await rig.connect();
    const made: ChannelWriter[] = [];
    for (let n = 0; n < count; n += 1) {
      const name = replyName(SERVICE, `0${n}`, 0);
      const ring = { ...MESSAGE, slots: slotsOf(2), readersMax: 1, ...META };
      const writer = await hub.createChannel(name, ring);
      made.push(writer);
      if (says === "nothing") continue;
      const facts = factsMessage({ depth: 2, request: { ...MESSAGE, metaBytesMax: 280 } });
      const meta = encodeEnvelope(name, { kind: "hello", number: 0 }, facts, META.metaBytesMax);
      using slot = await writer.loan();
      slot.commit({ meta, byteLength: 0 });
    }
    return made;
  }

  for (const says of ["nothing", "hello"] as const) {
    it(`gets no request, and holds up no other worker: ${says}`, async () => {
      await offers(8, says);
      const worker = await rig.worker();
      const client = await rig.client();
      for (let id = 0; id < 4; id += 1) assert.equal((await ask(client, { id })).pid, worker.pid);
      assert.equal(client.workers, 1);
    });
  }

  it("does not keep a client from the other workers that may use one only", async () => {
    await offers(1, "nothing");
    const worker = await rig.worker();
    const client = await rig.client({ workersMax: 1 });
    assert.equal((await ask(client, { id: 1 })).pid, worker.pid);
  });

  it("is named by the error of a request that finds no other worker", async () => {
    await offers(1, "nothing");
    const client = await rig.client();
    await until("the error says why it could not be used", async () => {
      const error = await asked(client, { timeoutMs: 1 }).catch((error) => error);
      assert.equal(error.code, "TIMEOUT");
      return /not done within 1000 ms; it has sent no hello/.test(error.message);
    });
  });

  it("is given up as soon as its worker ends", async () => {
    const [offer] = await offers(1, "hello");
    const client = await rig.client({ workersMax: 1 });
    const answer = ask(client, { id: 1 });
    await until("it is claimed", () => offer?.readers === 1);
    offer?.close();
    const worker = await rig.worker();
    assert.equal((await answer).pid, worker.pid);
  });
});
