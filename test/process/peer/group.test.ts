import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestRuntime } from "../../support/test-runtime.js";
import { outcome, type Said } from "./member-steps.js";

const MEMBER = new URL("./actors/group-member.js", import.meta.url);
const ROUNDS = new URL("./actors/group-rounds.js", import.meta.url);

/** Waits until the step has begun. */
async function begins(actor: Actor, step: string): Promise<void> {
  while (((await actor.says()) as Said).begins !== step);
}

async function kill(actor: Actor): Promise<void> {
  actor.kill("SIGKILL");
  await actor.exited();
}

describe("a group of processes", () => {
  checkLeaks();

  it("of 4 passes 200 barriers and 200 gathers while it shares memory", async () => {
    using runtime = new TestRuntime();
    const start = (rank: number) =>
      new Actor(ROUNDS, { args: [runtime.file("g.sock"), String(rank), "4", "200"] });
    await using three = start(3);
    await using one = start(1);
    await using two = start(2);
    await using zero = start(0);
    for (const [rank, actor] of [zero, one, two, three].entries()) {
      assert.deepEqual(await actor.says(), { rank, wrong: 0, documents: 4 });
    }
    for (const actor of [zero, one, two, three])
      assert.equal(await actor.exited(), 0, actor.complaint);
    assert.deepEqual(runtime.names(), []);
  });

  const member = (runtime: TestRuntime, rank: number, size: number, ...steps: string[]) =>
    new Actor(MEMBER, { args: [runtime.file("g.sock"), String(rank), String(size), ...steps] });

  for (const victim of [0, 1, 3]) {
    for (const point of [
      "before the barrier",
      "while it waits itself",
      "while it gathers",
      "by its own exit",
    ]) {
      it(`tells early and late waiters that rank ${victim} was ended ${point}`, async () => {
        using runtime = new TestRuntime();
        const steps: Record<string, string[]> = {
          "before the barrier": ["told"],
          "while it waits itself": ["barrier", "told"],
          "while it gathers": ["gather", "told"],
          "by its own exit": ["told", "exit"],
        };
        const late = victim === 2 ? 0 : 2;
        const others = [0, 1, 2, 3].filter((rank) => rank !== victim && rank !== late);
        await using dying = member(runtime, victim, 4, ...(steps[point] ?? []));
        await using latecomer = member(runtime, late, 4, "told", "barrier", "gather");
        await using one = member(runtime, others[0] as number, 4, "barrier", "barrier");
        await using two = member(runtime, others[1] as number, 4, "gather", "gather");
        await Promise.all([
          begins(one, "barrier"),
          begins(two, "gather"),
          outcome(latecomer, "join"),
        ]);
        const [meets] = steps[point] ?? [];
        if (meets === "told") await outcome(dying, "join");
        else await begins(dying, meets as string);
        if (point === "by its own exit") dying.goOn();
        else dying.kill("SIGKILL");
        const { pid } = dying;
        const wanted = new RegExp(`rank ${victim} \\(process ${pid}\\) has ended`);
        for (const [actor, step] of [
          [one, "barrier"],
          [one, "barrier"],
          [two, "gather"],
          [two, "gather"],
        ] as const) {
          const { code, message } = await outcome(actor, step);
          assert.deepEqual([code, wanted.test(message ?? "")], ["PEER_GONE", true], message);
        }
        latecomer.goOn();
        for (const step of ["barrier", "gather"]) {
          const { code, message } = await outcome(latecomer, step);
          assert.deepEqual([code, wanted.test(message ?? "")], ["PEER_GONE", true], message);
        }
        await dying.exited();
      });
    }
  }

  it("gives another process the rank of one that was killed before it formed", async () => {
    using runtime = new TestRuntime();
    await using zero = member(runtime, 0, 3, "gather");
    await using killed = member(runtime, 1, 3);
    await Promise.all([begins(zero, "join"), begins(killed, "join")]);
    await kill(killed);
    await using one = member(runtime, 1, 3, "gather");
    await begins(one, "join");
    await using two = member(runtime, 2, 3, "gather");
    for (const actor of [zero, one, two]) {
      assert.deepEqual((await outcome(actor, "gather")).value, ["0 of 3", "1 of 3", "2 of 3"]);
    }
  });

  it("does not form if rank 0 is killed, and its name becomes free", async () => {
    using runtime = new TestRuntime();
    await using one = member(runtime, 1, 3);
    await using killed = member(runtime, 0, 3);
    await begins(killed, "join");
    await begins(one, "join");
    // WHY a second member with its rank: its refusal shows that the first was admitted.
    await using again = member(runtime, 1, 3);
    assert.equal((await outcome(again, "join")).code, "NAME_TAKEN");
    await kill(killed);
    assert.equal((await outcome(one, "join")).code, "PEER_GONE");
    await using zero = member(runtime, 0, 2, "barrier");
    await using next = member(runtime, 1, 2, "barrier");
    assert.deepEqual(
      [(await outcome(zero, "barrier")).code, (await outcome(next, "barrier")).code],
      [undefined, undefined],
    );
  });

  it("is not broken by members that are stopped and continued", async () => {
    using runtime = new TestRuntime();
    await using zero = member(runtime, 0, 2, "barrier", "gather");
    await using one = member(runtime, 1, 2, "told", "barrier", "gather");
    await outcome(one, "join");
    await begins(zero, "barrier");
    one.kill("SIGSTOP");
    one.goOn();
    one.kill("SIGCONT");
    assert.equal((await outcome(zero, "barrier")).code, undefined);
    assert.deepEqual((await outcome(zero, "gather")).value, ["0 of 2", "1 of 2"]);
  });

  it("keeps no process alive after it has formed, even if nobody closes it", async () => {
    using runtime = new TestRuntime();
    await using zero = member(runtime, 0, 2, "barrier");
    await using one = member(runtime, 1, 2, "barrier");
    for (const actor of [zero, one]) {
      assert.equal((await outcome(actor, "barrier")).code, undefined);
      assert.equal(await actor.exited(), 0);
    }
  });
});
