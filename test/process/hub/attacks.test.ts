/**
 * One user works without errors while another user attacks the hub. bench/hub/attacks.ts measures
 * the speed. Needs root, to act as several users.
 */
import assert from "node:assert/strict";
import { mkdirSync, statSync } from "node:fs";
import { describe, it } from "node:test";
import { connect } from "../../../src/client/connect.js";
import type { Actor } from "../../support/actor.js";
import {
  attackKinds,
  attackUsers,
  type Suffered,
  skipAttack,
  startAttacker,
  startVictim,
} from "../../support/attack.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { nightly } from "../../support/random.js";
import { TestHub } from "../../support/test-hub.js";
import { FuseSender, skipFuse } from "../../support/waiting-fds.js";
import { withoutAio } from "../../support/without-aio.js";

const ATTACKERS = 2;
const CYCLES = nightly ? 25 : 10;
const NEWCOMERS = 10;
/** Connections of a user who sends a file on each. */
const CONNECTIONS = 200;
/**
 * A limit so low that the attackers' unread descriptors could use up the hub user's whole kernel
 * limit.
 */
const FDS_MAX = 1024;

/** A log that grew with each refusal would be far larger. */
const LOG_BYTES_MAX = 64 * 1024;

describe("a user works without an error while another user attacks the hub", {
  skip: skipUnlessRoot,
}, () => {
  checkLeaks();

  for (const kind of attackKinds) {
    it(`by ${kind}`, { skip: skipAttack(kind) }, async () => {
      const { hub: user, victim: victimUser, attacker } = attackUsers;
      const config = { users: [victimUser.uid, attacker.uid] };
      // A user who takes all of fs.aio-max-nr would disturb the tests that run beside this one.
      const within = () => (kind === "bells" ? withoutAio : []);
      await using hub = await TestHub.start({ user, fdsMax: FDS_MAX, config, log: true, within });
      await using victim = startVictim(hub.socket, CYCLES, user.uid);
      assert.equal(await victim.says(), "here");
      const attackers: Actor[] = [];
      try {
        for (let index = 0; index < ATTACKERS; index += 1) {
          attackers.push(startAttacker(hub.socket, kind, `attacker-${index}`, user.uid));
        }
        for (const attacker of attackers) assert.equal(await attacker.says(), "here");
        // They say more only if the hub did what it must not do.
        const found: unknown[] = [];
        for (const attacker of attackers) {
          attacker.says().then(
            (said) => found.push(said),
            () => {},
          );
        }
        victim.goOn();
        const { milliseconds, errors } = (await victim.says()) as Suffered;
        assert.deepEqual([milliseconds.length, errors, found], [CYCLES, [], []]);
        checkLog(hub);
      } finally {
        for (const attacker of attackers) await attacker[Symbol.asyncDispose]();
      }
    });
  }

  for (const kind of ["connects", "lingering", "unserved"] as const) {
    it(`connects while another user's clients crowd the accept queue, by ${kind}`, async () => {
      const { hub: user, attacker } = attackUsers;
      await using hub = await TestHub.start({ user, config: { users: [0, attacker.uid] } });
      const attackers: Actor[] = [];
      try {
        for (let index = 0; index < ATTACKERS; index += 1) {
          attackers.push(startAttacker(hub.socket, kind, `attacker-${index}`, user.uid));
        }
        for (const attacker of attackers) assert.equal(await attacker.says(), "here");
        for (let index = 0; index < NEWCOMERS; index += 1) {
          await using client = await connect({
            socket: hub.socket,
            hubUid: user.uid,
            start: false,
          });
          await client.status();
        }
      } finally {
        for (const attacker of attackers) await attacker[Symbol.asyncDispose]();
      }
    });
  }

  it("by FUSE files whose server does not answer, from a user who is not served", {
    skip: skipFuse,
  }, async () => {
    const { hub: user, victim: victimUser, unserved } = attackUsers;
    await using hub = await TestHub.start({ user, config: { users: [victimUser.uid] }, log: true });
    await using victim = startVictim(hub.socket, CYCLES, user.uid);
    assert.equal(await victim.says(), "here");
    const folder = hub.folder.file("fuse");
    mkdirSync(folder);
    await using _sender = await FuseSender.start(
      folder,
      hub.socket,
      "unserved",
      CONNECTIONS,
      unserved.uid,
    );
    victim.goOn();
    const { milliseconds, errors } = (await victim.says()) as Suffered;
    assert.deepEqual([milliseconds.length, errors], [CYCLES, []]);
    checkLog(hub);
  });
});

function checkLog(hub: TestHub): void {
  const { size } = statSync(hub.folder.file("log"));
  assert.ok(size <= LOG_BYTES_MAX, `the log has ${size} bytes`);
}
