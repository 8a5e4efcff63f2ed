/** A NATS server that is back, takes connections, and has no JetStream for a while. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import { describe, it } from "node:test";
import { Deadline } from "../../../src/base/deadline.js";
import { NatsStore } from "../../../src/bridge/names/nats-store.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TestNats } from "../../support/machines/test-nats.js";
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
