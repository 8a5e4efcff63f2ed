/** Which user is charged for what and how long, and what one message may cost the others. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { poolFileBytes } from "../../../../src/base/pool-layout.js";
import {
  defaultQuotasOf,
  type HubPolicy,
  privatePolicy,
  shareOf,
} from "../../../../src/hub/limits/policy.js";
import { resources } from "../../../../src/hub/limits/quota.js";
import { CoreRig, HUB_UID, peerOf } from "../../../support/core-rig.js";
import { hostArray, hostPool, timelineDescriptor } from "../../../support/messages.js";

const ALICE = { uid: 1, gid: 10, groups: [10] };
const BOB = { uid: 2, gid: 20, groups: [20] };
const CARL = { uid: 3, gid: 30, groups: [30] };
const serving: HubPolicy = { ...privatePolicy(HUB_UID), users: "all" };
const FOR_ALL = { with: "all", access: "read" } as const;

function withClients(clients: number): HubPolicy {
  const { limits } = serving;
  return { ...serving, limits: { ...limits, user: { ...limits.user, clients } } };
}

function published(
  rig: CoreRig,
  session: number,
  name: string,
  lifetime: "held" | "pinned" = "held",
) {
  const fields = { name, lifetime, descriptor: hostArray, sharing: FOR_ALL } as const;
  const { object, lease } = rig.result(session, "create", fields, [rig.fd()]) as {
    object: number;
    lease: number;
  };
  rig.result(session, "publish", { object });
  return lease;
}

function opened(rig: CoreRig, session: number, name: string): number {
  return rig.result(session, "open", { name, access: "read", wait: false }).lease as number;
}

/** The use of each user, as the hub reports it to root. */
function usersOf(rig: CoreRig): Record<string, number>[] {
  rig.greeted(99, "root", peerOf(99, { uid: 0 }));
  const { users } = rig.result(99, "status", {}) as { users: Record<string, number>[] };
  rig.ask(99, "bye", {});
  return users.filter(({ uid }) => uid !== 0);
}

function chargedFor(rig: CoreRig): (readonly [number | undefined, number | undefined])[] {
  return usersOf(rig)
    .filter(({ objects }) => objects !== 0)
    .map(({ uid, objects }) => [uid, objects] as const);
}

describe("memory that several objects share", () => {
  const inOnePool = (rig: CoreRig) => {
    const byteLength = poolFileBytes(65_536);
    return () => rig.fd({ byteLength, inode: "1:7777" });
  };

  it("is charged once to each account, as long as one of its objects is", () => {
    const rig = new CoreRig(serving);
    rig.greeted(1, "p", peerOf(1, ALICE));
    rig.greeted(2, "p", peerOf(2, ALICE));
    const fd = inOnePool(rig);
    const file = poolFileBytes(65_536);
    const creates = (session: number, name: string) =>
      rig.result(session, "create", { name, lifetime: "held", descriptor: hostPool(65_536) }, [
        fd(),
      ]).lease as number;
    const bytes = () => usersOf(rig).map(({ hostBytes }) => hostBytes);
    const leases = [creates(1, "a"), creates(1, "b"), creates(2, "c")];
    assert.deepEqual(bytes(), [file]);
    rig.ask(1, "release", { lease: leases[0] as number });
    rig.ask(1, "release", { lease: leases[1] as number });
    assert.deepEqual(bytes(), [file]);
    rig.core.processEnded(2);
    assert.deepEqual(bytes(), [0]);
  });

  it("is refused if all of it exceeds a limit, however small the object is", () => {
    const { limits } = serving;
    const user = { ...limits.user, hostBytes: 65_536 };
    const rig = new CoreRig({ ...serving, limits: { ...limits, user } });
    rig.greeted(1, "p", peerOf(1, ALICE));
    for (const [descriptor, byteLength] of [
      [hostPool(65_536), poolFileBytes(65_536)],
      [{ ...timelineDescriptor, allocationByteLength: 65_537 }, 65_537],
    ] as const) {
      const fields = { name: "x", lifetime: "held", descriptor } as const;
      assert.equal(rig.failure(1, "create", fields, [rig.fd({ byteLength })]), "LIMIT_EXCEEDED");
    }
    const fields = { name: "x", lifetime: "held", descriptor: timelineDescriptor } as const;
    rig.result(1, "create", fields, [rig.fd()]);
  });
});

describe("a client", () => {
  it("counts until its process has ended if it holds something", () => {
    const rig = new CoreRig(withClients(2));
    for (const id of [1, 2]) {
      rig.greeted(id, "p", peerOf(id, ALICE));
      published(rig, id, `x${id}`);
      rig.core.hungUp(id);
    }
    assert.throws(
      () => rig.core.connected(3, peerOf(3, ALICE)),
      (error) => hasCode(error, "LIMIT_EXCEEDED") && error.message.includes("limits.user.clients"),
    );
    rig.core.processEnded(1);
    rig.greeted(4, "p", peerOf(4, ALICE));
  });

  it('stops counting when it hangs up with nothing, or says "bye"', () => {
    const rig = new CoreRig(withClients(1));
    rig.greeted(1, "p", peerOf(1, ALICE));
    rig.core.hungUp(1);
    rig.greeted(2, "p", peerOf(2, ALICE));
    published(rig, 2, "x");
    rig.ask(2, "bye", {});
    rig.greeted(3, "p", peerOf(3, ALICE));
    assert.deepEqual(usersOf(rig), [
      { uid: 1, clients: 1, objects: 0, leases: 0, waitingOpens: 0, hostBytes: 0, deviceBytes: 0 },
    ]);
  });

  it("that comes back is let in over its user's limit, and counts once", () => {
    const rig = new CoreRig(withClients(1));
    const peer = peerOf(1, ALICE);
    rig.core.connected(1, peer);
    const { session } = rig.result(1, "hello", { client: { version: "1", program: "p" } });
    const lease = published(rig, 1, "x");
    rig.core.hungUp(1);
    assert.throws(() => rig.core.connected(2, peerOf(2, ALICE)), { code: "LIMIT_EXCEEDED" });
    assert.equal(rig.resumed(3, session as number, peer).resumed, true);
    rig.result(3, "restore", { lease });
    assert.throws(() => rig.core.connected(4, peer), { code: "LIMIT_EXCEEDED" });
    assert.equal(usersOf(rig)[0]?.clients, 1);
    rig.core.processEnded(3);
    assert.deepEqual(usersOf(rig), []);
  });

  it("that is let in to resume cannot begin a new session", () => {
    const rig = new CoreRig(withClients(1));
    const peer = peerOf(1, ALICE);
    rig.greeted(1, "p", peer);
    published(rig, 1, "x");
    rig.core.hungUp(1);
    rig.core.connected(2, peer);
    assert.throws(() => rig.core.connected(3, peer), { code: "LIMIT_EXCEEDED" });
    assert.equal(
      rig.failure(2, "hello", { client: { version: "1", program: "p" } }),
      "LIMIT_EXCEEDED",
    );
  });
});

describe("an object", () => {
  it("is charged to its creator's user as long as it has its name", () => {
    const rig = new CoreRig(serving);
    rig.greeted(1, "p", peerOf(1, ALICE));
    rig.greeted(2, "p", peerOf(2, BOB));
    published(rig, 1, "x");
    opened(rig, 2, "x");
    rig.core.processEnded(1);
    assert.deepEqual(chargedFor(rig), [[ALICE.uid, 1]]);
  });

  it("is charged to its oldest holder once its creator has released it", () => {
    const rig = new CoreRig(serving);
    rig.greeted(1, "p", peerOf(1, ALICE));
    const owned = published(rig, 1, "x");
    const leases = [BOB, CARL, CARL].map((user, index) => {
      rig.greeted(2 + index, "p", peerOf(2 + index, user));
      return opened(rig, 2 + index, "x");
    });
    rig.result(1, "remove", { name: "x" });
    assert.deepEqual(chargedFor(rig), [[ALICE.uid, 1]]);
    rig.result(1, "release", { lease: owned });
    assert.deepEqual(chargedFor(rig), [[BOB.uid, 1]]);
    const bytes = usersOf(rig).map(({ uid, hostBytes }) => [uid, hostBytes]);
    assert.deepEqual(bytes, [
      [ALICE.uid, 0],
      [BOB.uid, hostArray.allocationByteLength],
      [CARL.uid, 0],
    ]);
    rig.result(2, "release", { lease: leases[0] as number });
    assert.deepEqual(chargedFor(rig), [[CARL.uid, 1]]);
    rig.core.processEnded(3);
    assert.deepEqual(chargedFor(rig), [[CARL.uid, 1]]);
    rig.core.processEnded(4);
    assert.deepEqual(chargedFor(rig), []);
    assert.equal(rig.open.size, 0);
  });

  it("is charged to the same user after a crash of the hub", () => {
    const rig = new CoreRig(serving);
    rig.greeted(1, "p", peerOf(1, ALICE));
    rig.greeted(2, "p", peerOf(2, BOB));
    published(rig, 1, "x", "pinned");
    opened(rig, 2, "x");
    rig.core.processEnded(1);
    const next = new CoreRig(serving);
    const state = rig.core.state();
    const [bob] = [...state.sessions.values()];
    assert.ok(bob !== undefined);
    for (const object of state.objects.values()) object.named = false;
    next.core.inherit({
      state,
      connections: [{ id: 1, peer: bob, session: bob }],
      memory: new Map(),
    });
    assert.deepEqual(chargedFor(next), [[BOB.uid, 1]]);
  });
});

describe("default limits", () => {
  it("cover everything that costs the hub, and a user of a shared hub gets half", () => {
    const { hub } = defaultQuotasOf(16_384);
    const share = shareOf(hub);
    const costly = resources.filter(
      (resource) => !resource.endsWith("tBytes") && !resource.startsWith("device"),
    );
    for (const resource of costly) {
      assert.ok(Number.isFinite(hub[resource]), resource);
      assert.ok(share[resource] <= hub[resource] / 2, resource);
    }
  });

  it("leave room for clients, however few files the hub may open", () => {
    for (const openFiles of [1024, 4096, 1_048_576]) {
      const { clients, descriptors } = defaultQuotasOf(openFiles).hub;
      assert.ok(2 * clients + descriptors <= (7 / 8) * openFiles, `${openFiles}`);
    }
  });
});

describe("the cost of one message", () => {
  it('is a few leases at a time when a session ends, and "bye" is answered last', () => {
    const rig = new CoreRig(serving);
    rig.greeted(1, "p", peerOf(1, ALICE));
    rig.greeted(2, "p", peerOf(2, ALICE));
    for (let index = 0; index < 100; index += 1) published(rig, 1, `x${index}`);
    rig.defers = true;
    const bye = rig.send(1, "bye", {});
    assert.ok(rig.open.size > 50, `${rig.open.size} descriptors are left`);
    assert.deepEqual(
      [rig.answersTo(1, bye).length, rig.hungUp, rig.core.hasConnection(1)],
      [0, [], true],
    );
    assert.equal(rig.core.state().sessions.size, 1);
    // Nobody can resume it, and the hub takes no more messages of it.
    const late = rig.send(1, "status", {});
    assert.equal(rig.answersTo(1, late).length, 0);
    rig.runSteps();
    assert.deepEqual([rig.codes(1, bye), rig.hungUp, rig.open.size], [["ok"], [1], 0]);
    assert.equal(rig.core.hasConnection(1), false);
    assert.deepEqual(rig.core.state().sessions.size, 0);
  });

  it("is a few leases at a time when a resumed client restores none of them", () => {
    const rig = new CoreRig(serving);
    const peer = peerOf(1, ALICE);
    rig.core.connected(1, peer);
    const { session } = rig.result(1, "hello", { client: { version: "1", program: "p" } });
    for (let index = 0; index < 100; index += 1) published(rig, 1, `x${index}`);
    rig.resumed(2, session as number, peer);
    rig.defers = true;
    const restored = rig.send(2, "restored", {});
    assert.ok(rig.open.size > 50);
    assert.equal(rig.answersTo(2, restored).length, 0);
    rig.runSteps();
    assert.deepEqual([rig.codes(2, restored), rig.open.size], [["ok"], 0]);
  });

  it("is not the publisher's for waiting opens: each is answered in its own turn", () => {
    const rig = new CoreRig(serving);
    rig.greeted(1, "p", peerOf(1, ALICE));
    rig.greeted(2, "p", peerOf(2, BOB));
    const waits = Array.from({ length: 100 }, () =>
      rig.send(2, "open", { name: "x", access: "read", wait: true }),
    );
    rig.defers = true;
    published(rig, 1, "x");
    assert.equal(waits.flatMap((id) => rig.answersTo(2, id)).length, 0);
    assert.equal(rig.steps.length, 1);
    rig.runSteps();
    assert.deepEqual(new Set(waits.flatMap((id) => rig.codes(2, id))), new Set(["ok"]));
  });
});
