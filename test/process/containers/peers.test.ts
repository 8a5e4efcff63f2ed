/** Sharing without a hub, between two containers that share only the runtime folder. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { inContainer, skipWithoutContainers } from "../../support/container.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestRuntime } from "../../support/test-runtime.js";
import { outcome } from "../peer/member-steps.js";

const SHARES = new URL("../peer/actors/shares-things.js", import.meta.url);
const OPENS = new URL("./actors/opens-things.js", import.meta.url);
const SHARES_FILE = new URL("../peer/actors/shares-file.js", import.meta.url);
const OPENS_FILE = new URL("../peer/actors/opens-file.js", import.meta.url);
const OFFERS = new URL("../peer/actors/offers.js", import.meta.url);
const RECEIVES = new URL("../peer/actors/receives.js", import.meta.url);
const MEMBER = new URL("../peer/actors/group-member.js", import.meta.url);

function container(runtime: TestRuntime, program: URL, ...args: string[]): Actor {
  return new Actor(program, { args, within: inContainer(runtime.folder.path) });
}

async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
}

describe("two containers without a hub", { skip: skipWithoutContainers }, () => {
  checkLeaks();

  it("share memory and timelines by documents, and explain why handles are refused", async () => {
    using runtime = new TestRuntime();
    await using exporter = container(runtime, SHARES, JSON.stringify(["grow", "signal"]));
    const documents = await exporter.says();
    await using opener = container(runtime, OPENS, JSON.stringify(documents));
    assert.deepEqual(await opener.says(), {
      pooled: 1099,
      growing: 4096,
      legacy: "OTHER_PID_NAMESPACE",
      event: "OTHER_PID_NAMESPACE",
    });
    exporter.goOn();
    assert.equal(await exporter.says(), "grown");
    opener.goOn();
    assert.equal(await opener.says(), 100_000);
    exporter.goOn();
    assert.equal(await exporter.says(), "signalled");
    assert.equal(await opener.says(), "signalled");
    await kill(exporter);
    assert.equal(
      await opener.says(),
      "PEER_GONE",
      "the opener ended the timeline of the dead exporter",
    );
    opener.goOn();
    assert.deepEqual([await opener.says(), await opener.says()], ["PEER_GONE", "PEER_GONE"]);
    assert.equal(await opener.says(), 101, "what is mapped stays");
  });

  it("find a live exporter by a handle file, and detect a dead one by its socket", async () => {
    using runtime = new TestRuntime();
    const file = runtime.file("array.json");
    await using exporter = container(runtime, SHARES_FILE, file, "5");
    await exporter.says();
    await using opener = container(runtime, OPENS_FILE, file, "refuse");
    assert.deepEqual([await opener.says(), await opener.says()], ["here", 5]);
    await kill(exporter);
    await using late = container(runtime, OPENS_FILE, file, "refuse");
    assert.deepEqual([await late.says(), await late.says()], ["here", "PEER_GONE"]);
    await using waiting = container(runtime, OPENS_FILE, file, "wait");
    assert.equal(await waiting.says(), "here");
    await using next = container(runtime, SHARES_FILE, file, "6");
    await next.says();
    assert.equal(await waiting.says(), 6);
  });

  it("offer and receive", async () => {
    using runtime = new TestRuntime();
    await using offering = container(runtime, OFFERS, runtime.file("offer.sock"), "1");
    assert.equal(await offering.says(), "offered");
    await using receiving = container(runtime, RECEIVES, runtime.file("offer.sock"), "acknowledge");
    assert.deepEqual(
      [await receiving.says(), await receiving.says()],
      ["here", { elements: 262_144, wrong: 0 }],
    );
    assert.deepEqual(await offering.says(), { acknowledged: 1 });
  });

  for (const victim of [0, 1]) {
    it(`form a group with a host process, and notice that rank ${victim} is killed`, async () => {
      using runtime = new TestRuntime();
      const args = (rank: number, steps: string[]) => [
        runtime.file("g.sock"),
        String(rank),
        "3",
        ...steps,
      ];
      const steps = ["gather", "told", "barrier"];
      await using zero = container(runtime, MEMBER, ...args(0, steps));
      await using one = container(runtime, MEMBER, ...args(1, steps));
      await using two = new Actor(MEMBER, { args: args(2, steps) });
      const all = [zero, one, two];
      for (const actor of all) {
        const gathered = { step: "gather", value: ["0 of 3", "1 of 3", "2 of 3"] };
        assert.deepEqual(await outcome(actor, "gather"), gathered, actor.complaint);
      }
      const [dying, ...others] = [...all.splice(victim, 1), ...all] as [Actor, ...Actor[]];
      for (const actor of others) actor.goOn();
      await kill(dying);
      for (const actor of others) {
        const { code, message } = await outcome(actor, "barrier");
        assert.deepEqual(
          [code, /rank \d \(process 1\) has ended/.exec(message ?? "")?.[0]],
          ["PEER_GONE", `rank ${victim} (process 1) has ended`],
        );
      }
    });
  }
});
