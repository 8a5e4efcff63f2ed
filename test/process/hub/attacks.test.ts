/** While one user attacks the hub, another goes on without an error. bench/hub/attacks.ts says how fast. Needs root, to be several users. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestHub } from "../../support/test-hub.js";

const HUB = { uid: 12_340, gid: 12_340 };
const VICTIM = { uid: 12_341, gid: 12_341 };
const ATTACKER = { uid: 12_342, gid: 12_342 };
const UNSERVED = { uid: 12_343, gid: 12_343 };
const ATTACKERS = 2;
const CYCLES = 25;
/** So few that what attackers leave unread would be all that the kernel lets the hub's user have under way. */
const FDS_MAX = 1024;

const kinds = [
  "storm",
  "deaf",
  "unread",
  "list",
  "status",
  "leases",
  "endings",
  "churn",
  "failing",
  "waiting",
  "connects",
  "unserved",
  "garbage",
];

describe("a user goes on without an error while another attacks the hub", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  for (const kind of kinds) {
    it(`by ${kind}`, async () => {
      const users = [VICTIM.uid, ATTACKER.uid];
      await using hub = await TestHub.start({ user: HUB, fdsMax: FDS_MAX, config: { users } });
      const env = { CUDA_IPC_HUB_UID: String(HUB.uid) };
      const actor = (name: string, user: typeof HUB, ...args: string[]) => {
        return new Actor(new URL(`./actors/${name}.js`, import.meta.url), { args: [hub.socket, ...args], user, env });
      };
      await using victim = actor("victim", VICTIM, String(CYCLES), "victim");
      assert.equal(await victim.says(), "here");
      const attackers: Actor[] = [];
      try {
        for (let index = 0; index < ATTACKERS; index += 1) {
          attackers.push(actor("attacker", kind === "unserved" ? UNSERVED : ATTACKER, kind, `attacker-${index}`));
        }
        for (const attacker of attackers) assert.equal(await attacker.says(), "here");
        victim.goOn();
        const { milliseconds, errors } = (await victim.says()) as { milliseconds: number[]; errors: string[] };
        assert.deepEqual([milliseconds.length, errors], [CYCLES, []]);
      } finally {
        for (const attacker of attackers) await attacker[Symbol.asyncDispose]();
      }
    });
  }
});
