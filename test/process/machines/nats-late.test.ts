/**
 * A NATS server that takes connections, but lacks something: it is back without its JetStream for a
 * while, or the bucket is gone.
 */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { connect } from "@nats-io/transport-node";
import { Deadline } from "../../../src/base/deadline.js";
import { NatsStore } from "../../../src/bridge/names/nats-store.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestNats } from "../../support/machines/test-nats.js";
import { TwoMachines } from "../../support/machines/two-machines.js";
import { TestFolder } from "../../support/test-folder.js";
import { until } from "../../support/until.js";

describe("names in NATS", { skip: skipWithoutEngines }, () => {
  it("are told again once JetStream answers, and count as away until then", async () => {
    using folder = new TestFolder();
    const config = folder.file("nats.conf");
    configure(config, "enabled");
    await using nats = await TestNats.start(["-c", config]);
    const options = { url: nats.url, bucket: "cuda-ipc", user: "a", password: "b" };
    const log: string[] = [];
    const deadline = new Deadline("connect", {}, 20_000);
    const store = await NatsStore.connect(options, "test", deadline, (line) => log.push(line));
    try {
      const keys = new Set<string>();
      await store.watch({
        onRestart: () => keys.clear(),
        onEntry: ({ key }) => keys.add(key),
        onCurrent: () => {},
      });
      await store.create("name.before", Uint8Array.of(1));
      await until("a key is told", () => keys.has("name.before"));
      await nats.kill();
      configure(config, "disabled");
      await nats.resume();
      await until("JetStream is missed", () => /JetStream not enabled/.test(log.join("\n")));
      assert.notEqual(store.awaySinceMs, undefined);
      configure(config, "enabled");
      nats.signal("SIGHUP");
      await until("NATS answers", () => store.awaySinceMs === undefined);
      await store.create("name.after", Uint8Array.of(1));
      await until("a later key is told", () => keys.has("name.after"));
      // Each failure once, however often it was tried.
      assert.equal(log.filter((line) => /JetStream not enabled/.test(line)).length, 1);
    } finally {
      await store.close();
    }
  });
});

describe("bridges whose bucket is removed", { skip: skipWithoutEngines }, () => {
  it("make it again, announce all that they have, and find what is new", async () => {
    await using site = await TwoMachines.start();
    const { hubOfOne, hubOfOther, other } = site;
    using _early = await hubOfOne.put("early", Uint8Array.of(1));
    await until("the name is known", async () => (await other.status()).names.length === 1);
    const connection = await connect({ servers: site.nats.url });
    await connection.request("$JS.API.STREAM.DELETE.KV_cuda-ipc");
    await connection.close();
    using _late = await hubOfOne.put("late", Uint8Array.of(2));
    for (const [name, value] of [
      ["late", 2],
      ["early", 1],
    ] as const) {
      const options = { from: "any", dtype: "uint8", timeoutMs: 20_000 } as const;
      using copy = await hubOfOther.open(name, options);
      assert.deepEqual([...(await copy.read())], [value]);
    }
    await until("both machines are known again", async () => {
      const { machines, namesAwayMs } = await other.status();
      return namesAwayMs === null && machines.filter(({ alive }) => alive).length === 2;
    });
  });
});

/** Whether the user's account has JetStream. A server reads this again after SIGHUP. */
function configure(file: string, jetStream: "enabled" | "disabled"): void {
  const lines = [
    "jetstream: {}",
    "system_account: SYS",
    "accounts {",
    `  A { users: [{ user: a, password: b }], jetstream: ${jetStream} }`,
    "  SYS { users: [{ user: s, password: s }] }",
    "}",
  ];
  writeFileSync(file, lines.join("\n"));
}
