/**
 * A user whose memory makes the hub's writes wait harms nobody else. The stopped process stands for
 * one that waits in the kernel. Needs root, to act as several users.
 */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, it, type TestContext } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import type { Hub } from "../../../src/client/hub.js";
import type { ImportedTimeline } from "../../../src/gpu/order/timeline.js";
import type { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { untilStopped } from "../../support/process-state.js";
import { TestHub } from "../../support/test-hub.js";
import { soon, until } from "../../support/until.js";
import { assertDone, BOB, forAll, HUB, tenant } from "./tenant-rig.js";

const config = { users: [0, BOB.uid] };
const readers = forAll("read") as never;

describe("the process that writes words for a hub of several users", {
  skip: skipUnlessRoot,
}, () => {
  checkLeaks();

  it("does not exist in a hub of one user", async () => {
    await using testHub = await TestHub.start();
    await using hub = await testHub.connect();
    await (await hub.createTimeline("t")).close();
    assert.deepEqual(writersOf(testHub), []);
  });

  for (const then of ["goes on", "stays stopped", "is killed"] as const) {
    it(`stops, and another user goes on; the end is written when it ${then}`, async (t) => {
      await using testHub = await TestHub.start({ user: HUB, config });
      await using hub = await testHub.connect({ hubUid: HUB.uid });
      await using bob = await tenant(testHub, BOB, ["createTimeline", "t", readers], ["wait"]);
      await assertDone(bob);
      await using timeline = await hub.openTimeline("t");
      const writer = await stopAt(t, testHub, hub, bob);
      for (const name of ["one", "two"]) {
        await using timeline = await hub.createTimeline(name);
        await using other = await hub.openTimeline(name);
        timeline.signal(2n);
        assert.equal(other.value, 2n);
      }
      if (then === "goes on") signal(writer, "SIGCONT");
      if (then === "is killed") signal(writer, "SIGKILL");
      await assertEnds(timeline);
      assert.equal(timeline.read({ evenIfEnded: true }), 5n);
    });
  }

  it("stops, and only a reader of that user's channel waits for its seat", async (t) => {
    await using testHub = await TestHub.start({ user: HUB, config });
    await using hub = await testHub.connect({ hubUid: HUB.uid });
    await using _owner = await tenant(testHub, BOB, ["createChannel", "his", readers], ["wait"]);
    await assertDone(_owner);
    await using bob = await tenant(testHub, BOB, ["createTimeline", "t"], ["wait"]);
    await assertDone(bob);
    const writer = await stopAt(t, testHub, hub, bob);
    const opening = hub.openChannel("his");
    await using _mine = await hub.createChannel("mine", { dtype: "uint8", shape: [8] });
    await using _reader = await hub.openChannel("mine");
    signal(writer, "SIGCONT");
    await using _his = await soon("the other channel opens", opening);
  });

  it("has written everything when the hub stops meanwhile", async (t) => {
    await using testHub = await TestHub.start({ user: HUB, config });
    await using hub = await testHub.connect({ hubUid: HUB.uid });
    await using bob = await tenant(
      testHub,
      BOB,
      ["createTimeline", "t", readers],
      ["createTimeline", "u", readers],
      ["wait"],
    );
    for (const _ of ["t", "u"]) await assertDone(bob);
    await using timeline = await hub.openTimeline("t");
    await using other = await hub.openTimeline("u");
    const writer = await stopAt(t, testHub, hub, bob);
    await hub.stop({ force: true });
    await testHub.exited();
    signal(writer, "SIGCONT");
    for (const one of [timeline, other]) await assertEnds(one);
  });
});

/** Stops the process while it has the end of Bob's timeline "t" to write. */
async function stopAt(t: TestContext, testHub: TestHub, hub: Hub, bob: Actor): Promise<number> {
  await using earlier = await tenant(testHub, BOB, ["createTimeline", "t0", readers], ["wait"]);
  await assertDone(earlier);
  await using timeline = await hub.openTimeline("t0");
  await earlier[Symbol.asyncDispose]();
  // Only the hub ends the timeline of a dead process.
  await assertEnds(timeline);
  const [writer] = writersOf(testHub);
  assert.ok(writer !== undefined, "a process writes for the hub");
  process.kill(writer, "SIGSTOP");
  t.after(() => signal(writer, "SIGKILL"));
  await untilStopped(writer);
  await bob[Symbol.asyncDispose]();
  await until("the hub has noticed", async () => {
    return (await hub.list()).every(({ name }) => !["t", "u"].includes(name));
  });
  return writer;
}

async function assertEnds(timeline: ImportedTimeline): Promise<void> {
  await assert.rejects(soon("the timeline ends", timeline.wait(6n)), (error) =>
    hasCode(error, "PEER_GONE"),
  );
}

/** The hub replaces a process that stays stopped, so it may be gone. */
function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ESRCH") throw error;
  }
}

function writersOf({ pid }: TestHub): number[] {
  const children = readFileSync(`/proc/${pid}/task/${pid}/children`, "utf8").trim().split(" ");
  return children.filter((child) => isWriter(child)).map(Number);
}

function isWriter(pid: string): boolean {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8").includes("words-main");
  } catch {
    // It has ended.
    return false;
  }
}
