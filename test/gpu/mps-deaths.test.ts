/**
 * Deaths under MPS: if a client is killed or faults while its kernel runs, all clients of its
 * server lose their contexts. Each of them gets an error that names the cause, and the hub's
 * objects are unharmed. Every test has its own MPS server; this process is not its client.
 */
import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import type { Hub } from "../../src/index.js";
import { Actor } from "../support/actor.js";
import { startMps, whyNoMps } from "../support/mps-server.js";
import { checkEnds, SURVIVOR, waiting } from "../support/survivor.js";
import { TestHub } from "../support/test-hub.js";

const actor = (name: string) => new URL(`actors/${name}.js`, import.meta.url);
const PINNED = ["pinned", "1000003", "7"] as const;

/** A hub, and pinned memory on the GPU whose creator has ended. */
async function withPinned(
  env: Readonly<Record<string, string>>,
): Promise<{ testHub: TestHub; hub: Hub }> {
  const testHub = await TestHub.start();
  const hub = await testHub.connect({ device: "host" });
  await using keeper = new Actor(actor("mps-keeper"), { args: [testHub.socket, ...PINNED], env });
  assert.equal(await keeper.exited(), 0, keeper.complaint);
  return { testHub, hub };
}

/** Retries, because the server may still be recovering. Reports how long that took. */
async function checkPinned(
  t: TestContext,
  socket: string,
  env: Readonly<Record<string, string>>,
): Promise<void> {
  const beganMs = Date.now();
  for (let attempt = 1; ; attempt += 1) {
    await using checker = new Actor(actor("mps-checker"), {
      args: [socket, PINNED[0], PINNED[2]],
      env,
    });
    const found = await checker.says().catch(() => undefined);
    const code = await checker.exited();
    if (code === 0) {
      t.diagnostic(
        `a new process reads the pinned memory ${Date.now() - beganMs} ms later, at attempt ${attempt}`,
      );
      return assert.deepEqual(found, { wrong: -1, count: Number(PINNED[1]) });
    }
    t.diagnostic(`attempt ${attempt}: ${checker.complaint.trim().split("\n").at(-1)}`);
    assert.ok(
      /MPS_UNAVAILABLE|DEVICE_LOST/.test(checker.complaint) && attempt < 20,
      checker.complaint,
    );
  }
}

describe("under MPS, a client that ends while its kernel runs", {
  skip: whyNoMps() ?? false,
}, () => {
  for (const what of ["kernels", "endless", "faults"]) {
    const how = what === "faults" ? "by a fault" : `by SIGKILL (${what})`;
    it(`ends all others' contexts with DEVICE_LOST, ${how}; memory is unharmed`, async (t) => {
      using mps = startMps();
      const { env } = mps;
      const { testHub, hub } = await withPinned(env);
      await using _testHub = testHub;
      await using _hub = hub;
      using _never = await hub.createTimeline("never", { device: "host" });
      await using first = new Actor(SURVIVOR, { args: [testHub.socket], env });
      await using second = new Actor(SURVIVOR, { args: [testHub.socket], env });
      await using outside = new Actor(actor("mps-bystander"), { args: [testHub.socket] });
      await Promise.all([waiting(first), waiting(second), outside.says()]);
      // WHY only now: a call that loads code may wait for a running kernel.
      await using victim = new Actor(actor("mps-victim"), { args: [what], env });
      await victim.says();
      const { pid } = await hub.status();
      const endMs = Date.now();
      if (what === "faults") victim.goOn();
      else victim.kill("SIGKILL");
      await Promise.all([
        checkEnds(first, endMs, (line) => t.diagnostic(line)),
        checkEnds(second, endMs, () => {}),
      ]);
      if (what === "faults")
        t.diagnostic(`the one that faulted: ${JSON.stringify(await victim.says())}`);
      outside.goOn();
      assert.deepEqual(
        await outside.says(),
        { code: "none", hasWorked: true },
        "a process that is no client of it",
      );
      assert.equal(await outside.exited(), 0, outside.complaint);
      assert.equal((await hub.status()).pid, pid);
      assert.deepEqual((await hub.list()).map(({ name }) => name).sort(), ["never", "pinned"]);
      await checkPinned(t, testHub.socket, env);
      await checkPinned(t, testHub.socket, {});
      t.diagnostic(mps.log);
    });
  }
});

describe("under MPS, a client that is killed while it fills memory", {
  skip: whyNoMps() ?? false,
}, () => {
  it("harms no other client", async () => {
    using mps = startMps();
    const { env } = mps;
    await using testHub = await TestHub.start();
    await using bystander = new Actor(actor("mps-bystander"), { args: [testHub.socket], env });
    await bystander.says();
    await using victim = new Actor(actor("mps-victim"), { args: ["fills"], env });
    await victim.says();
    victim.kill("SIGKILL");
    await victim.exited();
    bystander.goOn();
    assert.deepEqual(await bystander.says(), { code: "none", hasWorked: true });
  });
});
