/** Three machines: one original and two copies at a time, and one name that all three have. */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestMachine } from "../../support/machines/test-machine.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { soon, until } from "../../support/until.js";

const NAMES = ["a", "b", "c"] as const;

describe("three machines", { skip: skipWithoutEngines }, () => {
  let nats: TestNats;
  let machines: readonly TestMachine[] = [];
  let hubs: readonly Hub[] = [];

  before(async () => {
    nats = await TestNats.start();
    const start = (name: string) => TestMachine.start(name, nats, { args: ["--announce", "*"] });
    machines = await Promise.all(NAMES.map(start));
    hubs = await Promise.all(machines.map((machine) => machine.connect()));
  });
  after(async () => {
    for (const hub of hubs) await hub.close();
    for (const machine of machines) await machine[Symbol.asyncDispose]();
    await nats?.[Symbol.asyncDispose]();
  });

  const [a, b, c] = [0, 1, 2].map((index) => ({
    get machine(): TestMachine {
      return machines[index] as TestMachine;
    },
    get hub(): Hub {
      return hubs[index] as Hub;
    },
  })) as [Site, Site, Site];

  it("copy one array to two of them at once", async () => {
    const values = new Uint8Array(32 * 1024 * 1024).fill(5);
    using _original = await a.hub.put("popular", values);
    const open = ({ hub }: Site) => hub.open("popular", { from: "any", dtype: "uint8" });
    const copies = await Promise.all([open(b), open(c)]);
    for (const copy of copies) {
      assert.equal(copy.replicaOf?.machine, "a");
      assert.ok(Buffer.from(await copy.read()).equals(Buffer.from(values)));
      copy.close();
    }
    // A copy is not announced, so nobody copies a copy.
    const owners = (await b.machine.status()).names.filter(({ name }) => name === "popular");
    assert.deepEqual(
      owners.map(({ machine }) => machine),
      ["a"],
    );
  });

  it("give one name to one of them, tell the others, and give it on when it is free", async () => {
    const values = (at: number) => Uint8Array.of(at);
    await Promise.all(
      [a, b, c].map(async ({ hub }, at) =>
        (await hub.put("same", values(at), { lifetime: "pinned" })).close(),
      ),
    );
    const left = [a, b, c];
    const announcerOf = async () => {
      let found: Site | undefined;
      await until("one machine announces the name, and the others are told", async () => {
        const states = await Promise.all(left.map((site) => statusOf(site)));
        found = left.find((_, at) => states[at]?.announces);
        const told = states.filter((it) => it.refused !== undefined);
        const owner = found?.machine.name;
        return told.length === left.length - 1 && told.every((it) => it.refused === owner);
      });
      return found as Site;
    };
    while (left.length > 0) {
      const owner = await announcerOf();
      for (const { hub, machine } of left) {
        using own = await hub.open("same", { from: "any", dtype: "uint8" });
        assert.equal(own.replicaOf, undefined);
        assert.deepEqual([...(await own.read())], [NAMES.indexOf(machine.name as "a")]);
        if (machine !== owner.machine) assert.match(machine.log, /not announced: "same", because/);
      }
      await owner.hub.remove("same");
      left.splice(left.indexOf(owner), 1);
    }
  });

  it("carry a channel on to one of them while the other's bridge dies", async () => {
    using writer = await a.hub.createChannel("frames", { byteLength: 1000, slots: 4 });
    const join = ({ hub }: Site) =>
      hub.openChannel("frames", { machine: "any", timeoutMs: 20_000 });
    using mortal = await join(b);
    using reader = await join(c);
    assert.equal(writer.readers, 2);
    const messages = 60;
    const write = async () => {
      for (let i = 0; i < messages; i += 1) {
        (await writer.loan({ timeoutMs: 25_000 })).commit({ meta: i });
        if (i === 20) await b.machine.killBridge();
      }
    };
    const read = async () => {
      for (let i = 0; i < messages; i += 1) {
        using message = await reader.next({ timeoutMs: 25_000 });
        assert.equal(message?.json, i);
        assert.equal(message?.missed, 0);
      }
    };
    const end = async () => {
      try {
        for await (using _message of mortal);
      } catch (error) {
        return (error as { code?: string }).code;
      }
      return "ended";
    };
    const [, , how] = await soon("all is read", Promise.all([write(), read(), end()]));
    assert.equal(how, "PEER_GONE");
    await until("the dead bridge holds no seat", () => writer.readers === 1);
  });

  async function statusOf({
    machine,
  }: Site): Promise<{ announces: boolean; refused: string | undefined }> {
    const { refused, names } = await machine.status();
    const owner = names.find(({ name }) => name === "same")?.machine;
    const other = refused.find(({ name }) => name === "same")?.machine;
    return { announces: owner === machine.name && other === undefined, refused: other };
  }
});

interface Site {
  readonly machine: TestMachine;
  readonly hub: Hub;
}
