import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { Hub } from "../../../src/client/hub.js";
import { createMemoryFile } from "../../../src/os/memory-file.js";
import { ownIdentity } from "../../../src/os/process-identity.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { hostArray } from "../../support/messages.js";
import { nightly } from "../../support/random.js";
import { RawClient } from "../../support/raw-client.js";
import { TestHub } from "../../support/test-hub.js";
import { until } from "../../support/until.js";

const HOST = new URL("./actors/thread-host.js", import.meta.url);
const INTERRUPTED = new URL("./actors/interrupted.js", import.meta.url);
const ROUNDS = nightly ? 10 : 2;
const STAGES = ["connect", "hold", "transfer", "wait"];

async function tell(actor: Actor, deed: string): Promise<unknown> {
  actor.goOn(deed);
  return actor.says();
}

async function holdsNothing(hub: Hub): Promise<boolean> {
  const { objects, leases, waitingOpens, clients } = await hub.status();
  return objects + leases + waitingOpens === 0 && clients === 1;
}

describe("a process whose worker thread uses a hub", () => {
  checkLeaks();

  for (const [end, code] of [
    ["terminate", 1],
    ["exit", 0],
    ["throw", 1],
  ] as const) {
    for (const stage of STAGES) {
      it(`survives a thread's end by ${end} (${stage}), and its leases end`, async () => {
        await using testHub = await TestHub.start();
        await using hub = await testHub.connect();
        await using actor = new Actor(HOST, { args: [testHub.socket] });
        const before = await tell(actor, "fds");
        await tell(actor, `start 1 ${stage}`);
        assert.deepEqual(await tell(actor, end), [code], actor.complaint);
        await until("the hub has everything back", () => holdsNothing(hub));
        assert.equal(await tell(actor, "fds"), before);
      });
    }
  }

  it("survives a thread that is terminated while one of its watches is ready", async () => {
    await using actor = new Actor(INTERRUPTED);
    assert.equal(await actor.says(), 1, actor.complaint);
    assert.equal(await actor.exited(), 0, actor.complaint);
  });

  it(`leaks no descriptors and no leases when ${10 * ROUNDS} threads are terminated`, async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await using actor = new Actor(HOST, { args: [testHub.socket] });
    await tell(actor, "start 1 hold");
    await tell(actor, "terminate");
    await until("the hub has everything back", () => holdsNothing(hub));
    const before = { own: await tell(actor, "fds"), hub: testHub.fdCount() };
    for (let round = 0; round < ROUNDS; round += 1) {
      await tell(actor, "start 10 hold");
      await tell(actor, "terminate");
    }
    await until("the hub has everything back", () => holdsNothing(hub));
    assert.deepEqual({ own: await tell(actor, "fds"), hub: testHub.fdCount() }, before);
  });

  it("has its threads back on the next hub, where their leases still end with them", async () => {
    await using testHub = await TestHub.start();
    await using actor = new Actor(HOST, { args: [testHub.socket] });
    await tell(actor, "start 2 hold");
    testHub.kill("SIGKILL");
    await testHub.exited();
    await using hub = await testHub.connect();
    await until("both threads are back", async () => (await hub.status()).clients === 3);
    await until("all have their memory", async () =>
      (await hub.list()).every(({ hasMemory }) => hasMemory),
    );
    assert.equal((await hub.status()).objects, 6);
    await tell(actor, "terminate");
    await until("the hub has everything back", () => holdsNothing(hub));
  });

  it("may lose its threads while no hub notices; the next hub ends their leases", async () => {
    await using testHub = await TestHub.start();
    await using actor = new Actor(HOST, { args: [testHub.socket] });
    await tell(actor, "start 2 hold");
    // WHY stopped first: this hub must not notice the threads' ends.
    testHub.kill("SIGSTOP");
    await tell(actor, "terminate");
    testHub.kill("SIGKILL");
    await testHub.exited();
    await using hub = await testHub.connect();
    await until("the hub has everything back", () => holdsNothing(hub));
  });

  it("keeps the session of a thread that lost only its connection", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    const hello = {
      op: "hello",
      client: { version: "0", program: "raw" },
      // This thread, which is alive.
      thread: { tid: process.pid, startTicks: ownIdentity().startTicks },
    };
    const first = await RawClient.connect(testHub.socket, false);
    const session = (await first.ask(hello)).result?.session;
    using memory = createMemoryFile("frame", 4096);
    const created = await first.ask(
      { op: "create", name: "frame", lifetime: "held", descriptor: hostArray },
      [memory],
    );
    assert.ok(created.ok, created.error?.message);
    first[Symbol.dispose]();
    await until("the hub has noticed", async () => (await hub.status()).clients === 1);
    using second = await RawClient.connect(testHub.socket, false);
    const { result } = await second.ask({ ...hello, resume: { session } });
    assert.equal(result?.resumed, true);
    assert.equal((await hub.status()).leases, 1);
  });

  for (const [end, code] of [
    ["main exits", 0],
    ["main throws", 1],
  ] as const) {
    for (const stage of STAGES) {
      it(`ends with exit code ${code} when its ${end} (${stage})`, async () => {
        await using testHub = await TestHub.start();
        await using hub = await testHub.connect();
        await using actor = new Actor(HOST, { args: [testHub.socket] });
        await tell(actor, `start 3 ${stage}`);
        actor.goOn(end);
        assert.equal(await actor.exited(), code, actor.complaint);
        await until("the hub has everything back", () => holdsNothing(hub));
      });
    }
  }
});
