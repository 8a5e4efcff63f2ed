/** A bridge whose clock, NATS or UCX is wrong or missing, or that meets another version. */

import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { type AddressInfo, createServer, type Server } from "node:net";
import { after, before, describe, it } from "node:test";
import { pathToFileURL } from "node:url";
import { Deadline } from "../../../src/base/deadline.js";
import { defaults } from "../../../src/base/limits.js";
import type { Hub } from "../../../src/client/hub.js";
import type { Descriptor } from "../../../src/wire/descriptor.js";
import { encodeRecord, machineKey, nameKey } from "../../../src/wire/machine-records.js";
import { MACHINES_VERSION } from "../../../src/wire/machines-version.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { HostileMachine } from "../../support/machines/hostile-machine.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { hostArray } from "../../support/messages.js";
import { TestFolder } from "../../support/test-folder.js";
import { soon, until } from "../../support/until.js";

describe("a bridge", { skip: skipWithoutEngines }, () => {
  let nats: TestNats;
  let one: TestMachine;
  let hubOfOne: Hub;

  before(async () => {
    nats = await TestNats.start();
    one = await TestMachine.start("one", nats, { args: ["--announce", "*"] });
    hubOfOne = await one.connect();
  });
  after(async () => {
    await hubOfOne?.close();
    await one?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });

  it("whose clock is an hour behind or ahead works as any other", async () => {
    using folder = new TestFolder();
    for (const hours of [-1, 1]) {
      const clock = folder.file(`clock${hours}.mjs`);
      writeFileSync(clock, shiftedClock(hours));
      const env = { NODE_OPTIONS: `--import=${pathToFileURL(clock).href}` };
      const within = () => ["env", `NODE_OPTIONS=${env.NODE_OPTIONS}`];
      const args = ["--announce", "*"];
      await using other = await TestMachine.start("late", nats, { args, env, hub: { within } });
      await using hubOfOther = await other.connect();
      const skewMs = Date.parse(other.log.slice(0, 24)) - Date.now();
      assert.equal(Math.round(skewMs / 3_600_000), hours, "its clock is shifted");
      using _original = await hubOfOne.put("there", Uint8Array.of(1, 2));
      using copy = await hubOfOther.open("there", { from: "any", dtype: "uint8" });
      assert.deepEqual([...(await copy.read())], [1, 2]);
      using writer = await hubOfOther.createChannel("back", { byteLength: 8 });
      using reader = await hubOfOne.openChannel("back", { machine: "any", timeoutMs: 20_000 });
      (await writer.loan()).commit({ meta: hours });
      using message = await reader.next({ timeoutMs: 10_000 });
      assert.equal(message?.json, hours);
      // Still there when a record would have ended that was not renewed.
      const endMs = performance.now() + defaults.machineTtlMs + 1000;
      await until("its record was renewed", async () => {
        const { machines } = JSON.parse((await one.run("bridge", "status", "--json")).out);
        assert.equal(machines.find((it: { machine: string }) => it.machine === "late").alive, true);
        return performance.now() > endMs;
      });
    }
  });

  it("refuses a NATS server that is too old, by its version", async () => {
    const server = await scriptedNats("2.10.29");
    try {
      await using other = await TestMachine.start("other", nats);
      other.signalBridge("SIGTERM");
      await other.bridgeEnded();
      const url = `nats://127.0.0.1:${(server.address() as AddressInfo).port}`;
      const where = ["--nats", url, "--socket", other.hub.socket];
      const { code, error } = await other.run("bridge", "--machine", "other", ...where);
      assert.equal(code, 1);
      assert.match(error, /error\[NATS_UNAVAILABLE\]: .*version 2\.10\.29, wanted 2\.11 or newer/);
      assert.match(error, /hint: .*2\.11/);
    } finally {
      server.close();
    }
  });

  it("ends a fetch, and says so, if UCX has no transport that both machines have", async () => {
    process.env.UCX_TLS = "self";
    try {
      await using alone = await HostileMachine.start(nats, "alone");
      const name = await alone.announce(hostArray);
      const opening = hubOfOne.open(name, { from: "any" });
      await assert.rejects(soon("the open ends", opening), (error: Error & { code?: string }) => {
        assert.equal(error.code, "UNSUPPORTED");
        assert.match(error.message, /"alone": it has no transport in common with UCX .*tcp/);
        return true;
      });
      assert.deepEqual(await hubOfOne.list({ prefix: name }), []);
    } finally {
      delete process.env.UCX_TLS;
    }
  });

  it("refuses a link with a bridge of another version, and one that answers in another", async () => {
    await using hostile = await HostileMachine.start(nats, "newer");
    const { instance } = await recordOf(hostile, "one");
    const deadline = new Deadline("link", {}, 20_000);
    const request = Buffer.from(JSON.stringify({ v: 9, op: "link", machine: "newer" }));
    const reply = await hostile.store.ask(`link.${instance}`, request, deadline);
    const { ok, error } = JSON.parse(Buffer.from(reply).toString());
    assert.deepEqual([ok, error.code], [false, "PROTOCOL_MISMATCH"]);
    await one.says("no link with another machine");

    const newest = { machine: "newest", instance: randomUUID(), place: "there", ucx: "1.22.0" };
    hostile.store.serve(`link.${newest.instance}`, async () => Buffer.from('{"v":9,"ok":true}'));
    const machine = { ...newest, v: MACHINES_VERSION, ready: true } as const;
    await hostile.store.create(machineKey("newest"), encodeRecord(machine));
    const name = "of-the-newest";
    const record = {
      v: MACHINES_VERSION,
      name,
      machine: "newest",
      object: 1,
      sharedWith: "private",
    } as const;
    const facts = { createdAtMs: 1, descriptor: hostArray };
    await hostile.store.create(nameKey(name), encodeRecord({ ...record, ...facts }));
    await until("the name is seen", async () => {
      return (await one.status()).names.some((it) => it.name === name);
    });
    const opening = hubOfOne.open(name, { from: "any" });
    await assert.rejects(soon("the open ends", opening), { code: "PROTOCOL_MISMATCH" });
    assert.equal((await hubOfOne.list({ prefix: name })).length, 0);
  });

  it("refuses to copy an array that is larger than the machine", async () => {
    await using hostile = await HostileMachine.start(nats, "boaster");
    const byteLength = 2 ** 45;
    const array = { dtype: "uint8", shape: [byteLength], strides: [1], byteOffset: 0 };
    const content = { kind: "array" as const, array };
    const sizes = { byteLength, allocationByteLength: byteLength };
    const descriptor: Descriptor = { ...hostArray, ...sizes, content };
    hostile.answer = (_, { op }) =>
      op === "export" ? { export: 1, descriptor, indexByteLength: 0 } : {};
    const name = await hostile.announce(descriptor);
    const opening = hubOfOne.open(name, { from: "any" });
    await assert.rejects(soon("the open ends", opening), { code: "OUT_OF_MEMORY" });
    assert.equal((await hubOfOne.list({ prefix: name })).length, 0);
  });
});

async function recordOf(from: HostileMachine, machine: string): Promise<{ instance: string }> {
  const entry = await from.store.read(`machine.${machine}`);
  return JSON.parse(Buffer.from(entry?.value ?? []).toString());
}

/** A program that shifts the wall clock of its process. Other clocks do not show the time. */
function shiftedClock(hours: number): string {
  return `const now = Date.now;
const shifted = () => now() + ${hours} * 3_600_000;
globalThis.Date = class extends Date {
  constructor(...given) {
    if (given.length === 0) super(shifted());
    else super(...given);
  }
  static now() {
    return shifted();
  }
};
`;
}

/** Says that it is a server of NATS of this version, and answers pings. */
async function scriptedNats(version: string): Promise<Server> {
  const server = createServer((socket) => {
    const info = { server_id: "old", version, proto: 1, headers: true, max_payload: 1048576 };
    socket.write(`INFO ${JSON.stringify({ ...info, jetstream: true })}\r\n`);
    socket.on("data", (bytes) => {
      if (bytes.includes("PING")) socket.write("PONG\r\n");
    });
    socket.on("error", () => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return server;
}
