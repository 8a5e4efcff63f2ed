/** Arrays and bundles that go from one machine to another, with a real nats-server and UCX. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { Actor } from "../../support/actor.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { until, untilRejects } from "../../support/until.js";

const OWNS_LEGACY = new URL("../hub/actors/owns-legacy.js", import.meta.url);

const isSkipped = skipWithoutEngines;

describe("an array of another machine", { skip: isSkipped }, () => {
  let nats: TestNats;
  let one: TestMachine;
  let other: TestMachine;
  let hubOfOne: Hub;
  let hubOfOther: Hub;

  before(async () => {
    nats = await TestNats.start();
    one = await TestMachine.start("one", nats, { args: ["--announce", "*"] });
    other = await TestMachine.start("other", nats);
    hubOfOne = await one.connect();
    hubOfOther = await other.connect();
  });
  after(async () => {
    await hubOfOne?.close();
    await hubOfOther?.close();
    await other?.[Symbol.asyncDispose]();
    await one?.[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });

  it("opens by its name, with shape, values and the machine that it is of", async () => {
    const values = Float64Array.from({ length: 300_000 }, (_, i) => i / 7);
    using original = await hubOfOne.put("grid", values, { shape: [300, 1000] });
    using copy = await hubOfOther.open("grid", { from: "any", dtype: "float64" });
    assert.deepEqual(copy.shape, [300, 1000]);
    assert.deepEqual(await copy.read(), values);
    assert.deepEqual(copy.replicaOf, { machine: "one", object: original.object });
    assert.equal(original.replicaOf, undefined);
    const { object } = await hubOfOther.inspect("grid");
    assert.equal(object.lifetime, "pinned");
  });

  it("may have no bytes, one, and a little less and more than a piece", async () => {
    for (const byteLength of [0, 1, 262_143, 262_145, 9 * 1024 * 1024 + 5]) {
      const name = `bytes-${byteLength}`;
      const values = Uint8Array.from({ length: byteLength }, (_, i) => (i * 31) % 251);
      using _original = await hubOfOne.put(name, values);
      using copy = await hubOfOther.open(name, { from: "any", dtype: "uint8" });
      assert.ok(Buffer.from(await copy.read()).equals(Buffer.from(values)), name);
    }
  });

  it("may be a bundle, with its metadata", async () => {
    const arrays = {
      "layer.0": { dtype: "float32", shape: [3, 5] },
      "läyer 1": { dtype: "int16", shape: [7] },
    } as const;
    const metadata = { format: "test", é: "ü" };
    using original = await hubOfOne.createBundle("model", arrays, { metadata });
    await original.array("läyer 1").write(Int16Array.of(1, 2, 3, 4, 5, 6, -7));
    await original.publish();
    using copy = await hubOfOther.openBundle("model", { from: "any" });
    assert.deepEqual(copy.names(), ["layer.0", "läyer 1"]);
    assert.deepEqual(copy.metadata, metadata);
    const found = await copy.array("läyer 1").read();
    assert.deepEqual([...(found as Int16Array)], [1, 2, 3, 4, 5, 6, -7]);
    assert.equal(copy.replicaOf?.machine, "one");
  });

  it("may lie in memory that only its owner keeps: the copy ends with the owner", async () => {
    await using owner = new Actor(OWNS_LEGACY, { args: [one.hub.socket, "lent", "none"] });
    assert.equal(await owner.says(), "published");
    {
      using copy = await hubOfOther.open("lent", { from: "any", dtype: "int32" });
      assert.deepEqual([...(await copy.read())], [1, 2, 3]);
      assert.equal((await hubOfOther.inspect("lent")).object.descriptor.mechanism, "memfd");
    }
    owner.kill("SIGKILL");
    await until("the copy is removed", async () => {
      const objects = await hubOfOther.list();
      return objects.every(({ name }) => name !== "lent");
    });
  });

  it("is fetched once, however many open it at a time", async () => {
    using _original = await hubOfOne.put("popular", new Uint8Array(16 * 1024 * 1024).fill(3));
    const copies = await Promise.all(
      Array.from({ length: 8 }, () => hubOfOther.open("popular", { from: "any" })),
    );
    assert.equal(new Set(copies.map(({ object }) => object)).size, 1);
    for (const copy of copies) copy.close();
    await other.says('copied: "popular"');
    assert.equal(other.log.split('copied: "popular"').length - 1, 1);
  });

  it("is waited for until a machine announces it", async () => {
    const opening = hubOfOther.open("later", { from: "any", timeoutMs: 20_000 });
    using _original = await hubOfOne.put("later", Uint8Array.of(4, 2));
    using copy = await opening;
    assert.deepEqual([...((await copy.read()) as Uint8Array)], [4, 2]);
  });

  it("is not waited for if a process of this machine publishes the name first", async () => {
    const opening = hubOfOther.open("ours", { from: "any", timeoutMs: 20_000 });
    using _own = await hubOfOther.put("ours", Uint8Array.of(9));
    using opened = await opening;
    assert.equal(opened.replicaOf, undefined);
  });

  it("is not there: NOT_FOUND, TIMEOUT and ABORTED say so", async () => {
    const open = (options: object) => hubOfOther.open("nowhere", { from: "any", ...options });
    await assert.rejects(open({ wait: false }), { code: "NOT_FOUND" });
    const found = /not done within \d+ ms; no machine whose bridge runs has announced it/;
    await untilRejects({ code: "TIMEOUT", message: found }, (timeoutMs) => open({ timeoutMs }));
    const signal = AbortSignal.timeout(300);
    await assert.rejects(open({ signal }), { code: "ABORTED" });
  });

  it("is not asked for without `from`", async () => {
    using _original = await hubOfOne.put("far", Uint8Array.of(1));
    await one.says('announced: "far"');
    await assert.rejects(hubOfOther.open("far", { wait: false }), { code: "NOT_FOUND" });
  });

  it("is replaced when a later object takes its name", async () => {
    {
      using _first = await hubOfOne.put("weights", Uint8Array.of(1), { lifetime: "pinned" });
      using copy = await hubOfOther.open("weights", { from: "any" });
      const second = { lifetime: "pinned", replace: true } as const;
      using _second = await hubOfOne.put("weights", Uint8Array.of(2, 2), second);
      await until("the copy is replaced", async () => {
        using found = await hubOfOther.open("weights");
        return found.shape[0] === 2;
      });
      // Who has the first copy keeps it.
      assert.deepEqual([...((await copy.read()) as Uint8Array)], [1]);
    }
    await hubOfOne.remove("weights");
  });

  it("is removed with its original", async () => {
    {
      using _original = await hubOfOne.put("brief", Uint8Array.of(1), { lifetime: "pinned" });
      using _copy = await hubOfOther.open("brief", { from: "any" });
    }
    await hubOfOne.remove("brief");
    await until("the copy is removed", async () => !(await has(hubOfOther, "brief")));
  });

  it("gives way to an object of this machine, which stays", async () => {
    using _own = await hubOfOther.put("both", Uint8Array.of(7));
    using _original = await hubOfOne.put("both", Uint8Array.of(8));
    await one.says('announced: "both"');
    using opened = await hubOfOther.open("both", { from: "any", dtype: "uint8" });
    assert.deepEqual([...(await opened.read())], [7]);
  });

  it("is shown by ls, inspect and bridge status", async () => {
    using _original = await hubOfOne.put("shown", Uint8Array.of(1));
    assert.match((await other.run("pull", "shown", "--wait", "20s")).out, /a copy from "one"/);
    assert.match((await other.run("pull", "shown")).out, /there already/);
    assert.match((await other.run("ls", "shown")).out, /replica of one/);
    assert.match((await other.run("inspect", "shown")).out, /replica of .*machine one/);
    const { out } = await other.run("bridge", "status");
    assert.match(out, /Machine "one": \d+ names?\./);
    assert.match(out, /shown +1 byte +one/);
  });

  it("comes unasked if its name matches --pull", async () => {
    const args = ["--pull", "auto-*"];
    await using third = await TestMachine.start("third", nats, { args });
    await using hub = await third.connect();
    using _original = await hubOfOne.put("auto-1", Uint8Array.of(5));
    using copy = await hub.open("auto-1", { timeoutMs: 20_000 });
    assert.equal(copy.replicaOf?.machine, "one");
  });
});

async function has(hub: Hub, name: string): Promise<boolean> {
  return (await hub.list({ prefix: name })).some((it) => it.name === name);
}
