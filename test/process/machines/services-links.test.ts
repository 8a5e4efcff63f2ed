/** A service whose far bridge cannot be linked with: the client is told why, and what to do. */

import assert from "node:assert/strict";
import { randomBytes, randomUUID } from "node:crypto";
import { after, before, describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import { CudaIpcError } from "../../../src/base/errors.js";
import { FrameSeal } from "../../../src/bridge/link/frame-seal.js";
import { askForWorker } from "../../../src/client/connection/bridge-call.js";
import { connectService } from "../../../src/service/service-client.js";
import { memoryOf, UcxWorker } from "../../../src/ucx/ucx-worker.js";
import { MACHINES_VERSION } from "../../../src/wire/machines-version.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { HostileMachine } from "../../support/machines/hostile-machine.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { soon, until, untilRejects } from "../../support/until.js";

describe("a service of a machine", { skip: skipWithoutEngines }, () => {
  let nats: TestNats;
  let machine: TestMachine;

  before(async () => {
    process.env.UCX_TLS = "tcp";
    nats = await TestNats.start();
    machine = await TestMachine.start("one", nats);
  });
  after(async () => {
    await machine?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });

  /**
   * What the bridge answers to a client that looks for the only worker of a service, and what the
   * client throws when it has waited in vain.
   */
  async function failuresOf(far: HostileMachine): Promise<readonly CudaIpcError[]> {
    const service = `service-of-${far.name}`;
    await far.announceService(service);
    await until("the service is seen", async () =>
      (await machine.status()).services.some((it) => it.service === service),
    );
    await using hub = await machine.connect();
    const deadline = new Deadline("ask", {}, 20_000);
    const answer = await failureOf(askForWorker(hub.socketPath, service, [], deadline));
    const client = connectService(hub, service, { machine: "any" });
    try {
      let thrown = answer;
      const isTold = (error: CudaIpcError) => {
        thrown = error;
        return error.message.includes(answer.message);
      };
      await untilRejects(isTold, (timeoutMs) => client.request(undefined, { timeoutMs }), 3000);
      assert.deepEqual(await hub.list(), [], "something is left");
      return [answer, thrown];
    } finally {
      await client.close();
    }
  }

  it("whose bridge is answers in another version: PROTOCOL_MISMATCH, and to upgrade the older one", async () => {
    const reply = Buffer.from('{"v":9,"ok":true,"more":"than this version knows"}');
    await using far = await HostileMachine.start(nats, "newer", async () => reply);
    const found = /"newer": .*speaks version 9, newer than \d+ of this one/;
    const remedy = /^Upgrade cuda-ipc on the machine of the older bridge/;
    areFailures(await failuresOf(far), "PROTOCOL_MISMATCH", found, (it) => remedy.test(it));
  });

  it("whose bridge has another key: UNTRUSTED_PEER, and what to check", async () => {
    const workers: UcxWorker[] = [];
    const meet = async (far: HostileMachine, request: Uint8Array) => {
      const asked = JSON.parse(Buffer.from(request).toString());
      const worker = UcxWorker.create(far.context);
      workers.push(worker);
      worker.connect(Buffer.from(asked.address, "base64"), () => {});
      // As if NATS had handed out other secrets to this side.
      const seal = new FrameSeal([randomBytes(32), randomBytes(32)], "answered");
      const frame = seal.seal(Buffer.from('{"id":1,"ok":true,"result":{}}'));
      worker.send(memoryOf(frame), 1n).catch(() => {});
      return Buffer.from(
        JSON.stringify({
          v: MACHINES_VERSION,
          ok: true,
          machine: far.name,
          instance: randomUUID(),
          ucx: "1.22.0",
          address: Buffer.from(worker.address).toString("base64"),
          secret: randomBytes(32).toString("base64"),
        }),
      );
    };
    await using far = await HostileMachine.start(nats, "stranger", meet);
    try {
      const found = /not sealed with the key of this link/;
      const remedy = /log in to NATS.*ports of UCX.*docs\/machines\.md/;
      areFailures(await failuresOf(far), "UNTRUSTED_PEER", found, (it) => remedy.test(it));
    } finally {
      for (const worker of workers) worker.close();
    }
  });
});

async function failureOf(promise: Promise<unknown>): Promise<CudaIpcError> {
  const [outcome] = await soon("the wait ends", Promise.allSettled([promise]));
  assert.ok(outcome.status === "rejected" && outcome.reason instanceof CudaIpcError);
  return outcome.reason;
}

/** The bridge names the code, and the client's TIMEOUT passes it on with its remedy. */
function areFailures(
  [answer, thrown]: readonly CudaIpcError[],
  code: string,
  found: RegExp,
  isRemedy: (remedy: string) => boolean,
): void {
  assert.equal(answer?.code, code);
  assert.match(answer.message, found);
  assert.ok(isRemedy(answer.remedy), answer.remedy);
  assert.equal(thrown?.code, "TIMEOUT");
  assert.ok(thrown.message.includes(`${code}: ${answer.message}`), thrown.message);
  assert.ok(isRemedy(thrown.remedy), thrown.remedy);
}
