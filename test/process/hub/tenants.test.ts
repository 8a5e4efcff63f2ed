/** Several users on one hub: who may do what, who may have how much, and that none is in the way of another. Needs root, to be those users. */
import assert from "node:assert/strict";
import { chmodSync } from "node:fs";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { connect } from "../../../src/client/connect.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { skipUnlessRoot } from "../../support/other-user.js";
import { TestHub } from "../../support/test-hub.js";

const HUB = { uid: 12_340, gid: 12_340 };
const ALICE = { uid: 12_341, gid: 12_350 };
const BOB = { uid: 12_342, gid: 12_342 };
/** Of Alice's group. */
const CAROL = { uid: 12_343, gid: 12_350 };

type Step = readonly [string, ...unknown[]];
interface Outcome {
  readonly value?: unknown;
  readonly code?: string;
  readonly message?: string;
}

/** A process of this user that has begun with its steps. */
async function tenant(hub: TestHub, user: typeof ALICE, ...steps: Step[]): Promise<Actor> {
  const env = { CUDA_IPC_HUB_UID: String(HUB.uid) };
  const file = new URL("./actors/tenant.js", import.meta.url);
  const actor = new Actor(file, { args: [hub.socket, JSON.stringify(steps)], user, env });
  assert.equal(await actor.says(), "here");
  return actor;
}

async function outcome(actor: Actor): Promise<Outcome> {
  return (await actor.says()) as Outcome;
}

/** What comes of one step of a process of its own. */
async function tryAs(hub: TestHub, user: typeof ALICE, ...step: Step): Promise<Outcome> {
  await using actor = await tenant(hub, user, step);
  return await outcome(actor);
}

async function assertDone(actor: Actor, value: unknown = null): Promise<void> {
  assert.deepEqual(await outcome(actor), { value });
}

function assertDenied({ code, message }: Outcome, words: RegExp): void {
  assert.equal(code, "PERMISSION_DENIED", message);
  assert.match(message ?? "", words);
}

function assertOver({ code, message }: Outcome, words: RegExp): void {
  assert.equal(code, "LIMIT_EXCEEDED", message);
  assert.match(message ?? "", words);
}

const forAll = (access: string) => ({ with: "all", access });

for (const owner of [HUB, { uid: 0, gid: 0 }]) {
  describe(`objects on a hub of user ${owner.uid}`, { skip: skipUnlessRoot }, () => {
    checkLeaks();

    const startHub = () => TestHub.start({ user: owner, config: { users: "all" } });

    it("are their user's alone unless shared: others cannot open, see, inspect or remove them", async () => {
      await using hub = await startHub();
      await using alice = await tenant(hub, ALICE, ["create", "x"], ["read", "x"]);
      await assertDone(alice);
      await assertDone(alice, 7);
      for (const user of [BOB, CAROL]) {
        const words = /is of user 12341, shared with that user alone, and asked for by user 1234[23]; .+`sharing`/;
        assertDenied(await tryAs(hub, user, "read", "x"), words);
        assertDenied(await tryAs(hub, user, "inspect", "x"), words);
        assertDenied(await tryAs(hub, user, "remove", "x"), /^Cannot remove "x": it is of user 12341/);
        assert.deepEqual(await tryAs(hub, user, "list"), { value: [] });
      }
      assert.deepEqual(await tryAs(hub, ALICE, "read", "x"), { value: 7 });
    });

    it("can be shared with a group, for reading", async () => {
      await using hub = await startHub();
      await using alice = await tenant(hub, ALICE, ["create", "x", { with: "group" }]);
      await assertDone(alice);
      assert.deepEqual(await tryAs(hub, CAROL, "read", "x"), { value: 7 });
      assertDenied(await tryAs(hub, CAROL, "write", "x"), /for writing: .+ shared with group 12350 \(read\)/);
      assertDenied(await tryAs(hub, BOB, "read", "x"), /shared with group 12350/);
    });

    it("can be shared with all for reading, which the kernel holds them to", async () => {
      await using hub = await startHub();
      const sharing = { with: "all", access: "read" };
      await using alice = await tenant(hub, ALICE, ["create", "x", sharing], ["wait"], ["read", "x"]);
      await assertDone(alice);
      assert.deepEqual(await tryAs(hub, BOB, "list"), { value: [{ name: "x", ownerUid: ALICE.uid, sharing }] });
      assert.deepEqual(await tryAs(hub, BOB, "read", "x"), { value: 7 });
      assertDenied(await tryAs(hub, BOB, "write", "x"), /for writing: .+ shared with all \(read\)/);
      const pried = await tryAs(hub, BOB, "pry", "x");
      assert.deepEqual(pried, { value: { reopen: "EACCES", map: "PERMISSION_DENIED", write: "EBADF", read: "done" } });
      assertDenied(await tryAs(hub, BOB, "remove", "x"), /that user and root may do it$/);
      alice.goOn();
      await assertDone(alice);
      await assertDone(alice, 7);
    });

    it("can be shared with all for writing", async () => {
      await using hub = await startHub();
      await using alice = await tenant(hub, ALICE, ["create", "x", forAll("read-write")], ["wait"], ["read", "x"]);
      await assertDone(alice);
      assert.deepEqual(await tryAs(hub, BOB, "write", "x"), { value: null });
      assertDenied(await tryAs(hub, BOB, "remove", "x"), /^Cannot remove "x"/);
      alice.goOn();
      await assertDone(alice);
      await assertDone(alice, 9);
    });

    it("that are timelines can be shared", async () => {
      await using hub = await startHub();
      await using alice = await tenant(hub, ALICE, ["createTimeline", "t", { with: "all" }], ["createTimeline", "u"]);
      await assertDone(alice);
      await assertDone(alice);
      assert.deepEqual(await tryAs(hub, BOB, "openTimeline", "t"), { value: "5" });
      assertDenied(await tryAs(hub, BOB, "openTimeline", "u"), /shared with that user alone/);
    });
  });
}

describe("a hub for several users", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  it("is ended and restarted by its own user and root alone", async () => {
    await using hub = await TestHub.start({ user: HUB, config: { users: [ALICE.uid] } });
    for (const step of ["stop", "restart"]) {
      assertDenied(
        await tryAs(hub, ALICE, step),
        /hub: it is of user 12340, and asked by user 12341; that user and root/,
      );
    }
    assert.deepEqual(await tryAs(hub, HUB, "stop"), { value: null });
    await hub.exited();
  });

  it("serves nobody whom it does not know, and says so at once", async () => {
    await using hub = await TestHub.start({ user: HUB, config: { users: [ALICE.uid], groups: [CAROL.gid] } });
    assert.deepEqual(await tryAs(hub, CAROL, "list"), { value: [] });
    await assert.rejects(
      hub.connect({ hubUid: HUB.uid }),
      (error) =>
        hasCode(error, "UNTRUSTED_PEER") && /^Cannot serve user 0: this hub is of user 12340/.test(error.message),
    );
  });

  it("tells each user what it uses, and its own user and root of all", async () => {
    const limits = { user: { objects: 5, hostBytes: "1MiB" }, client: { messagesPerSecond: 10_000 } };
    await using hub = await TestHub.start({ user: HUB, config: { users: "all", limits } });
    await using alice = await tenant(hub, ALICE, ["create", "x"], ["users"], ["limits"]);
    await assertDone(alice);
    const used = {
      uid: ALICE.uid,
      clients: 1,
      objects: 1,
      leases: 1,
      waitingOpens: 0,
      hostBytes: 4096,
      deviceBytes: 0,
    };
    await assertDone(alice, [used]);
    const { value } = await outcome(alice);
    const ofUser = (value as { of: string; resource: string }[]).filter(({ of }) => of === "user");
    const limitOf = (resource: string) => ofUser.find((limit) => limit.resource === resource);
    assert.deepEqual(limitOf("objects"), { of: "user", resource: "objects", limit: 5, used: 1 });
    assert.deepEqual(limitOf("hostBytes"), { of: "user", resource: "hostBytes", limit: 2 ** 20, used: 4096 });
    assert.deepEqual(limitOf("leases"), { of: "user", resource: "leases", limit: 50_000, used: 1 });
    assert.equal((value as { resource: string; used: unknown }[]).at(-1)?.used, null);
    const own = ({ value: users }: Outcome) => (users as { uid: number }[]).map(({ uid }) => uid);
    assert.deepEqual(own(await tryAs(hub, BOB, "users")), [BOB.uid]);
    assert.deepEqual(own(await tryAs(hub, HUB, "users")), [ALICE.uid, HUB.uid]);
    assert.deepEqual(own(await tryAs(hub, { uid: 0, gid: 0 }, "users")), [ALICE.uid, 0]);
  });
});

const cases: readonly { readonly limits: object; readonly steps: readonly Step[]; readonly words: RegExp }[] = [
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
  { limits: { user: { clients: 1 } }, steps: [["connectAgain"]], words: /\(userLimits\.12342\.clients\)/ },
  {
    limits: { user: { waitingOpens: 1 } },
    steps: [
      ["awaitName", "n"],
      ["awaitNames", "n"],
    ],
    words: /^Cannot wait for "n": user 12342 has 1 opens that wait, .+\(userLimits\.12342\.waitingOpens\)/,
  },
];

describe("a user at a limit", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  for (const { limits, steps, words } of cases) {
    it(`is told which, and another goes on: ${JSON.stringify(limits)}`, async () => {
      const { user } = limits as { user: object };
      await using hub = await TestHub.start({ user: HUB, config: { users: "all", userLimits: { [BOB.uid]: user } } });
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
    assert.match(message ?? "", /user 12342 sends more than its limit of 20 messages a second \(userLimits\.12342\./);
    const rounds = Array.from({ length: 100 }, (): Step => ["list"]);
    await using alice = await tenant(hub, ALICE, ...rounds);
    for (const _ of rounds) await assertDone(alice, []);
    // WHY this says that he is paused: after each refusal there is then room for an answer.
    const { answered, refused } = (await bob.says()) as { answered: number; refused: number };
    assert.ok(refused <= 2 * answered, `${refused} refused, ${answered} answered`);
    assert.equal(bob.complaint, "");
  });
});

describe("a client of a hub for several users", { skip: skipUnlessRoot }, () => {
  checkLeaks();

  it("trusts root's hub, its own user's, and that of the user it is told of", async () => {
    await using hub = await TestHub.start({ user: HUB, config: { users: "all" } });
    await using rooted = await TestHub.start({ user: { uid: 0, gid: 0 }, config: { users: "all" } });
    assert.deepEqual(await tryAs(rooted, ALICE, "list"), { value: [] });
    await assert.rejects(hub.connect(), (error) => hasCode(error, "UNSAFE_RUNTIME_DIR"));
    await using own = await hub.connect({ hubUid: HUB.uid });
    assert.equal((await own.status()).pid, hub.pid);
    await using byEnvironment = await tenant(hub, ALICE, ["list"]);
    await assertDone(byEnvironment, []);
  });

  it("does not start a hub in the folder of another user", async () => {
    const hub = await TestHub.start({ user: HUB, config: { users: "all" } });
    await using _ = hub;
    hub.kill("SIGTERM");
    await hub.exited();
    await assert.rejects(
      connect({ socket: hub.socket, hubUid: HUB.uid }),
      (error) => hasCode(error, "HUB_UNAVAILABLE") && /it is for user 12340, whose folder that is/.test(error.message),
    );
  });

  it("refuses a folder that others than the hub's user can write to", async () => {
    await using hub = await TestHub.start({ user: HUB, config: { users: "all" } });
    for (const mode of [0o775, 0o757]) {
      chmodSync(hub.folder.path, mode);
      await assert.rejects(hub.connect({ hubUid: HUB.uid }), (error) => hasCode(error, "UNSAFE_RUNTIME_DIR"));
    }
    chmodSync(hub.folder.path, 0o755);
  });
});
