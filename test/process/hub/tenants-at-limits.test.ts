/** Users of one hub at their limits. Nobody else notices. Needs root, to act as those users. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestHub } from "../../support/test-hub.js";
import {
  ALICE,
  assertDone,
  assertOver,
  BOB,
  HUB,
  outcome,
  type Step,
  tenant,
} from "./tenant-rig.js";

const cases: readonly {
  readonly limits: object;
  readonly steps: readonly Step[];
  readonly words: RegExp;
}[] = [
  {
    limits: { user: { objects: 1 } },
    steps: [
      ["create", "b1"],
      ["create", "b2"],
    ],
    words:
      /^Cannot create "b2": user 12342 has 1 objects, and 1 more would be over its limit of 1 \(userLimits\.12342\.objects\)/,
  },
  {
    limits: { user: { descriptors: 1 } },
    steps: [
      ["create", "b1"],
      ["create", "b2"],
    ],
    words: /user 12342 has 1 file descriptors of objects, and 1 more .+\.descriptors\)/,
  },
  {
    limits: { user: { hostBytes: 8192 } },
    steps: [
      ["create", "b1", { with: "private" }, 8192],
      ["create", "b2"],
    ],
    words: /user 12342 has 8192 bytes of host memory, and 4096 more .+\.hostBytes\)/,
  },
  {
    limits: { user: { leases: 1 } },
    steps: [
      ["create", "b1"],
      ["read", "b1"],
    ],
    words: /\(userLimits\.12342\.leases\)/,
  },
  {
    limits: { user: { clients: 1 } },
    steps: [["connectAgain"]],
    words: /\(userLimits\.12342\.clients\)/,
  },
  {
    limits: { user: { waitingOpens: 1 } },
    steps: [
      ["awaitName", "n"],
      ["awaitNames", "n"],
    ],
    words:
      /^Cannot wait for "n": user 12342 has 1 waiting opens, .+\(userLimits\.12342\.waitingOpens\)/,
  },
];

describe("a user at a limit", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  for (const { limits, steps, words } of cases) {
    it(`gets an error with the limit, and others go on: ${JSON.stringify(limits)}`, async () => {
      const { user } = limits as { user: object };
      await using hub = await TestHub.start({
        user: HUB,
        config: { users: "all", userLimits: { [BOB.uid]: user } },
      });
      await using bob = await tenant(hub, BOB, ...steps);
      for (const _ of steps.slice(1)) await assertDone(bob, null);
      assertOver(await outcome(bob), words);
      await using alice = await tenant(
        hub,
        ALICE,
        ["create", "a1"],
        ["create", "a2"],
        ["connectAgain"],
        ["read", "a2"],
      );
      for (const value of [null, null, null, 7]) await assertDone(alice, value);
    });
  }

  it("that floods the hub is paused, while another is answered", async () => {
    const config = { users: "all", userLimits: { [BOB.uid]: { messagesPerSecond: 20 } } };
    await using hub = await TestHub.start({ user: HUB, config });
    await using bob = await tenant(hub, BOB, ["flood", 20]);
    const { code, message } = await outcome(bob);
    assert.equal(code, "LIMIT_EXCEEDED");
    assert.match(
      message ?? "",
      /user 12342 sends more than its limit of 20 messages a second \(userLimits\.12342\./,
    );
    const rounds = Array.from({ length: 100 }, (): Step => ["list"]);
    await using alice = await tenant(hub, ALICE, ...rounds);
    for (const _ of rounds) await assertDone(alice, []);
    // WHY this shows the pause: after each refusal there is room for an answer again.
    const { answered, refused } = (await bob.says()) as { answered: number; refused: number };
    assert.ok(refused <= 2 * answered, `${refused} refused, ${answered} answered`);
    assert.equal(bob.complaint, "");
  });
});
