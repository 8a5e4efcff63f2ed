import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { describe, it } from "node:test";
import { fileURLToPath } from "node:url";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { someOf } from "../../support/random.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const POOL_HOST = new URL("./actors/pool-host.js", import.meta.url);
const SPECS = fileURLToPath(new URL("./vitest", import.meta.url));
const require = createRequire(import.meta.url);
const VITEST = join(dirname(require.resolve("vitest/package.json")), "vitest.mjs");

async function hubIsEmpty(testHub: TestHub): Promise<void> {
  await using hub = await testHub.connect();
  await until("the hub has everything back", async () => (await hub.status()).objects === 0);
}

describe("a pool of worker threads that use a hub", () => {
  checkLeaks();

  it("of Piscina is destroyed, and its process ends by itself", async () => {
    await using testHub = await TestHub.start();
    await using actor = new Actor(POOL_HOST, { args: [testHub.socket] });
    assert.deepEqual(
      await actor.says(),
      Array.from({ length: 16 }, (_, index) => index),
    );
    assert.equal(await actor.says(), "destroyed");
    assert.equal(await actor.exited(), 0, actor.complaint);
    await hubIsEmpty(testHub);
  });

  for (const pool of someOf(["threads", "forks", "vmThreads"], 1)) {
    it(`of Vitest (--pool=${pool}) runs a test that leaves everything open`, async () => {
      await using testHub = await TestHub.start();
      const args = [VITEST, "run", `--pool=${pool}`, "--globals", "--root", SPECS];
      const env = { ...process.env, CUDA_IPC_SOCKET: testHub.socket, NO_COLOR: "1", CI: "1" };
      const child = spawn(process.execPath, args, { env, stdio: ["ignore", "pipe", "pipe"] });
      let said = "";
      for (const stream of [child.stdout, child.stderr])
        stream.on("data", (bytes) => (said += String(bytes)));
      const [code, signal] = await once(child, "close");
      assert.deepEqual({ code, signal }, { code: 0, signal: null }, said);
      assert.match(said, /1 passed/);
      await hubIsEmpty(testHub);
    });
  }
});
