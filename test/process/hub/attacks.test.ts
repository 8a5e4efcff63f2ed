/** While one user attacks the hub, another goes on without an error. bench/hub/attacks.ts says how fast. Needs root, to be several users. */
import assert from "node:assert/strict";
import { mkdirSync, statSync } from "node:fs";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestHub } from "../../support/test-hub.js";
import { FuseSender, skipFuse } from "../../support/waiting-fds.js";

const HUB = { uid: 12_340, gid: 12_340 };
const VICTIM = { uid: 12_341, gid: 12_341 };
const ATTACKER = { uid: 12_342, gid: 12_342 };
const UNSERVED = { uid: 12_343, gid: 12_343 };
const ATTACKERS = 2;
const CYCLES = 25;
/** Of a user who sends a file with each. */
const CONNECTIONS = 200;
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
  "lingering",
  "unserved",
  "unserved, lingering",
  "garbage",
];
/** A log that grows with each refusal has far more than that. */
const LOG_BYTES_MAX = 64 * 1024;

describe("a user goes on without an error while another attacks the hub", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  for (const kind of kinds) {
    it(`by ${kind}`, async () => {
      const users = [VICTIM.uid, ATTACKER.uid];
      await using hub = await TestHub.start({ user: HUB, fdsMax: FDS_MAX, config: { users }, log: true });
      const env = { CUDA_IPC_HUB_UID: String(HUB.uid) };
      const actor = (name: string, user: typeof HUB, ...args: string[]) => {
        return new Actor(new URL(`./actors/${name}.js`, import.meta.url), { args: [hub.socket, ...args], user, env });
      };
      await using victim = actor("victim", VICTIM, String(CYCLES), "victim");
      assert.equal(await victim.says(), "here");
      const attackers: Actor[] = [];
      try {
        for (let index = 0; index < ATTACKERS; index += 1) {
          attackers.push(
            actor("attacker", kind.startsWith("unserved") ? UNSERVED : ATTACKER, kind, `attacker-${index}`),
          );
        }
        for (const attacker of attackers) assert.equal(await attacker.says(), "here");
        victim.goOn();
        const { milliseconds, errors } = (await victim.says()) as { milliseconds: number[]; errors: string[] };
        assert.deepEqual([milliseconds.length, errors], [CYCLES, []]);
        checkLog(hub);
      } finally {
        for (const attacker of attackers) await attacker[Symbol.asyncDispose]();
      }
    });
  }

  it("by files of FUSE whose server does not answer, of a user who is not served", { skip: skipFuse }, async () => {
    await using hub = await TestHub.start({ user: HUB, config: { users: [VICTIM.uid] }, log: true });
    const env = { CUDA_IPC_HUB_UID: String(HUB.uid) };
    const file = new URL("./actors/victim.js", import.meta.url);
    await using victim = new Actor(file, { args: [hub.socket, String(CYCLES), "victim"], user: VICTIM, env });
    assert.equal(await victim.says(), "here");
    const folder = hub.folder.file("fuse");
    mkdirSync(folder);
    await using _sender = await FuseSender.start(folder, hub.socket, "unserved", CONNECTIONS, UNSERVED.uid);
    victim.goOn();
    const { milliseconds, errors } = (await victim.says()) as { milliseconds: number[]; errors: string[] };
    assert.deepEqual([milliseconds.length, errors], [CYCLES, []]);
    checkLog(hub);
  });
});

function checkLog(hub: TestHub): void {
  const { size } = statSync(hub.folder.file("log"));
  assert.ok(size <= LOG_BYTES_MAX, `the log has ${size} bytes`);
}
