/**
 * A `publish` of the client in C that times out may have passed the name of an older object on, or
 * may still do so. Whatever the hub does, the name has one of the two objects.
 */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hub } from "../../../src/index.js";
import { PeerProcess } from "../../support/peer-process.js";
import type { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";
import { withCHub } from "./c-hub.js";
import { type CPrograms, skip } from "./c-programs.js";

const BYTE = { dtype: "uint8", shape: [1] } as const;

const kinds = {
  array: (hub: Hub) => hub.put("x", Uint8Array.of(1)),
  bundle: async (hub: Hub) => {
    const bundle = await hub.createBundle("x", { a: BYTE });
    await bundle.publish();
    return bundle;
  },
  channel: (hub: Hub) => hub.createChannel("x", BYTE),
} as const;

describe("the client in C, if a publish with replace times out", { skip }, () => {
  let programs: CPrograms;
  let testHub: TestHub;
  let hub: Hub;
  withCHub((it) => {
    ({ programs, testHub, hub } = it);
  });

  const start = (kind: string) =>
    new PeerProcess(programs.including("gives-up.c"), [testHub.socket, kind]);

  async function does(program: PeerProcess, step: string): Promise<unknown> {
    program.tell(step);
    return program.said();
  }

  const objects = async () => (await hub.status()).objects;

  for (const [kind, make] of Object.entries(kinds)) {
    it(`keeps the name until the next one has it: ${kind}`, async () => {
      const old = await make(hub);
      const { object } = await hub.inspect("x");
      await using program = start(kind);
      assert.equal(await does(program, "make"), "made");
      assert.equal(await does(program, "publish"), "TIMEOUT");
      // The hub knows of both. NOT_FOUND if the name is free.
      await hub.inspect("x");
      assert.equal(await does(program, "settle"), "settled");
      assert.notEqual((await hub.inspect("x")).object, object);
      old.close();
      assert.notEqual((await hub.inspect("x")).object, object);
      assert.equal(await does(program, "remove"), "removed");
      await until("the object that was kept ends", async () => (await objects()) === 0);
      await program.finish();
    });
  }

  it("gives the array back once the next array of its client has the name", async () => {
    using _old = await hub.put("x", Uint8Array.of(1));
    await using program = start("array");
    assert.equal(await does(program, "make"), "made");
    assert.equal(await does(program, "publish"), "TIMEOUT");
    assert.equal(await does(program, "replace"), "replaced");
    await until("the old one and the last one are left", async () => (await objects()) === 2);
    await hub.inspect("x");
    await program.finish();
  });

  it("gives the array back if the hub says that it never gets the name", async () => {
    const old = await hub.put("x", Uint8Array.of(1));
    await using program = start("array");
    assert.equal(await does(program, "make"), "made");
    await hub.remove("x");
    old.close();
    using _timeline = await hub.createTimeline("x");
    assert.equal(await does(program, "publish"), "TIMEOUT");
    assert.equal(await does(program, "settle"), "settled");
    await until("only the timeline is left", async () => (await objects()) === 1);
    await program.finish();
  });

  it("gives a kept array back when it disconnects", async () => {
    using _old = await hub.put("x", Uint8Array.of(1));
    await using program = start("array");
    assert.equal(await does(program, "make"), "made");
    assert.equal(await does(program, "publish"), "TIMEOUT");
    await hub.inspect("x");
    await program.finish();
    await until("only the old one is left", async () => (await objects()) === 1);
  });
});
