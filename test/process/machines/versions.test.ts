/** Machines whose bridges are of other versions: nothing is exchanged, and everybody is told why. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import type { CudaIpcError } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import { connectService } from "../../../src/service/service-client.js";
import { MACHINES_VERSION } from "../../../src/wire/machines-version.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { HostileMachine } from "../../support/machines/hostile-machine.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { hostArray } from "../../support/messages.js";
import { soon, until, untilRejects } from "../../support/until.js";

const cases = [
  { name: "old", version: MACHINES_VERSION - 1, relation: "older", upgraded: 'machine "old"' },
  { name: "new", version: MACHINES_VERSION + 1, relation: "newer", upgraded: "this machine" },
];

describe("a machine whose bridge is of another version", { skip: skipWithoutEngines }, () => {
  let nats: TestNats;
  let machine: TestMachine;
  let hub: Hub;

  before(async () => {
    process.env.UCX_TLS = "tcp";
    nats = await TestNats.start();
    machine = await TestMachine.start("one", nats, { args: ["--announce", "*"] });
    hub = await machine.connect();
  });
  after(async () => {
    await hub?.close();
    await machine?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });

  for (const { name: other, version, relation, upgraded } of cases)
    it(`${relation}: PROTOCOL_MISMATCH says which machine has which version`, async () => {
      await using far = await HostileMachine.start(nats, other, undefined, version);
      const name = await far.announce(hostArray);
      const service = `service-of-${other}`;
      await far.announceService(service);
      const speaks = `the bridge of machine "${other}" speaks version ${version}`;
      const found = `${speaks}, ${relation} than ${MACHINES_VERSION} of this one`;
      await machine.says(`${found}. Upgrade cuda-ipc on ${upgraded}`);
      await until("its version is seen", async () => {
        const { out } = await machine.run("bridge", "status");
        return out.includes(`"${other}" cannot be used: its bridge speaks version ${version}`);
      });

      const opening = hub.open(name, { from: "any", timeoutMs: 20_000 });
      await assert.rejects(soon("the open ends", opening), (error: CudaIpcError) => {
        assert.deepEqual(
          [error.code, error.message],
          ["PROTOCOL_MISMATCH", `Cannot fetch "${name}": ${found}`],
        );
        assert.match(error.remedy, /^Upgrade cuda-ipc on the machine of the older bridge/);
        return true;
      });
      const client = connectService(hub, service, { machine: "any" });
      try {
        const isTold = ({ code, message }: CudaIpcError) =>
          code === "TIMEOUT" && message.includes(`Cannot use service "${service}": ${found}`);
        await untilRejects(isTold, (timeoutMs) => client.request(undefined, { timeoutMs }), 1000);
      } finally {
        await client.close();
      }
      assert.deepEqual(await hub.list(), [], "something is left");
    });

  for (const { name: other, version, relation } of cases)
    it(`${relation}: refuses its request for a link`, async () => {
      await using far = await HostileMachine.start(nats, `asks-${other}`);
      const { value } = (await far.store.read("machine.one")) ?? {};
      const { instance } = JSON.parse(Buffer.from(value ?? []).toString());
      const request = Buffer.from(JSON.stringify({ v: version, op: "link", machine: other }));
      const deadline = new Deadline("link", {}, 20_000);
      const reply = await far.store.ask(`link.${instance}`, request, deadline);
      const { v, ok, error } = JSON.parse(Buffer.from(reply).toString());
      // In the version of the bridge that refuses, so the other one finds the mismatch, too.
      assert.deepEqual([v, ok, error.code], [MACHINES_VERSION, false, "PROTOCOL_MISMATCH"]);
      assert.match(error.message, new RegExp(`"${other}" speaks version ${version}, ${relation}`));
      await machine.says(`no link with another machine: ${error.message}`);
    });
});
