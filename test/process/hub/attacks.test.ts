/** While one user attacks the hub, another goes on without an error. bench/hub/attacks.ts says how fast. Needs root, to be several users. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { attackKinds, attackUsers, startAttacker } from "../../support/attack.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestHub } from "../../support/test-hub.js";

const ATTACKERS = 2;
const CYCLES = 25;
/** So few that what attackers leave unread would be all that the kernel lets the hub's user have under way. */
const FDS_MAX = 1024;

describe("a user goes on without an error while another attacks the hub", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  for (const kind of attackKinds) {
    it(`by ${kind}`, async () => {
      const { hub: user, victim: victimUser, attacker } = attackUsers;
      const config = { users: [victimUser.uid, attacker.uid] };
      await using hub = await TestHub.start({ user, fdsMax: FDS_MAX, config });
      await using victim = new Actor(new URL("./actors/victim.js", import.meta.url), {
        args: [hub.socket, String(CYCLES), "victim"],
        user: victimUser,
        env: { CUDA_IPC_HUB_UID: String(user.uid) },
      });
      assert.equal(await victim.says(), "here");
      const attackers: Actor[] = [];
      try {
        for (let index = 0; index < ATTACKERS; index += 1) {
          attackers.push(startAttacker(hub.socket, kind, `attacker-${index}`, user.uid));
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
