/** Bridges at a leaf node whose names are in the JetStream domain of the hub's server. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { after, before, describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import type { NameEntry } from "../../../src/bridge/names/name-store.js";
import { NatsStore } from "../../../src/bridge/names/nats-store.js";
import { machineChecks } from "../../../src/cli/doctor/machine-checks.js";
import { natsOptionsOfEnvironment } from "../../../src/cli/nats-settings.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { freePort, TestNats } from "../../support/machines/test-nats.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";

const BUCKET = "cuda-ipc";
const LIMIT_MS = 30_000;
const text = (bytes: Uint8Array | undefined) => bytes && new TextDecoder().decode(bytes);
const bytes = (words: string) => new TextEncoder().encode(words);

describe("a JetStream domain", { skip: skipWithoutEngines }, () => {
  const folder = new TestFolder();
  let hub: TestNats;
  let leaf: TestNats;

  const start = (domain: string, leafnodes: string) => {
    const config = folder.file(`${domain}.conf`);
    writeFileSync(config, `jetstream: { domain: ${domain} }\nleafnodes: { ${leafnodes} }\n`);
    return TestNats.start(["-n", domain, "-c", config]);
  };
  const connect = (url: string, domain?: string) =>
    NatsStore.connect(
      { url, bucket: BUCKET, domain },
      "test",
      new Deadline("connect", {}, LIMIT_MS),
      () => {},
    );

  before(async () => {
    const port = await freePort();
    hub = await start("hub", `listen: "127.0.0.1:${port}"`);
    leaf = await start("edge", `remotes: [{ url: "nats://127.0.0.1:${port}" }]`);
    await until("the leaf node reaches the hub", async () => {
      try {
        await (await connect(leaf.url, "hub")).close();
        return true;
      } catch {
        return false;
      }
    });
  });
  after(async () => {
    await leaf?.[Symbol.asyncDispose]();
    await hub?.[Symbol.asyncDispose]();
    folder[Symbol.dispose]();
  });

  it("is where the bucket is, for reads, writes, watches and questions", async () => {
    const there = await connect(hub.url);
    const here = await connect(leaf.url, "hub");
    const elsewhere = await connect(leaf.url);
    try {
      const seen = new Map<string, NameEntry>();
      await there.watch({
        onRestart: () => {},
        onEntry: (entry) => void seen.set(entry.key, entry),
        onCurrent: () => {},
      });
      const first = await here.create("a", bytes("one"), { ttlMs: 600_000 });
      assert.ok(first !== undefined);
      assert.equal(await here.create("a", bytes("again")), undefined);
      await until("the hub's side sees it", () => text(seen.get("a")?.value) === "one");
      const second = await here.update("a", bytes("two"), first);
      assert.ok(second !== undefined);
      assert.equal(text((await there.read("a"))?.value), "two");
      assert.equal(text((await here.read("a"))?.value), "two");
      assert.equal(await elsewhere.read("a"), undefined);

      const seenHere = new Map<string, NameEntry>();
      await here.watch({
        onRestart: () => {},
        onEntry: (entry) => void seenHere.set(entry.key, entry),
        onCurrent: () => {},
      });
      await there.create("b", bytes("three"));
      await until("the leaf's side sees it", () => text(seenHere.get("b")?.value) === "three");
      assert.equal(await here.remove("a", second), true);
      await until("the hub's side sees the end", () => seen.get("a")?.value === undefined);

      here.serve("question", async () => bytes("answer"));
      const asking = () => there.ask("question", bytes("?"), new Deadline("ask", {}, LIMIT_MS));
      await until("the subject is known at the hub", async () => {
        try {
          return text(await asking()) === "answer";
        } catch {
          return false;
        }
      });
    } finally {
      for (const store of [there, here, elsewhere]) await store.close();
    }
  });

  const tried = async (CUDA_IPC_NATS_DOMAIN: string) => {
    const options = natsOptionsOfEnvironment({ CUDA_IPC_NATS: leaf.url, CUDA_IPC_NATS_DOMAIN });
    const [, nats] = await machineChecks(options, new AbortController().signal);
    return `${nats?.state}: ${nats?.detail}`;
  };

  it("is tried by doctor", async () => {
    assert.match(await tried("hub"), /^ok: version 2/);
  });

  it("that no server has is named in the error", async () => {
    assert.match(
      await tried("nowhere"),
      /NATS_UNAVAILABLE: .*bucket "cuda-ipc" of the domain "nowhere"/,
    );
  });
});
