/** Users and their limits in the hub's core: service, permissions and quotas. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../../src/base/errors.js";
import { defaultQuotas, type HubPolicy, privatePolicy } from "../../../../src/hub/limits/policy.js";
import type { Level, Quota } from "../../../../src/hub/limits/quota.js";
import type { Sharing } from "../../../../src/wire/messages.js";
import { CoreRig, HUB_UID, peerOf } from "../../../support/core-rig.js";
import { gpuArray, hostArray, timelineDescriptor } from "../../../support/messages.js";

const ALICE = { uid: 1, gid: 10, groups: [10, 77] };
const BOB = { uid: 2, gid: 20, groups: [20] };
/** A member of Alice's group through one of his other groups. */
const CARL = { uid: 3, gid: 30, groups: [30, 10] };

const open: HubPolicy = { ...privatePolicy(HUB_UID), users: "all" };

function limited(level: Level, quota: Partial<Quota>): HubPolicy {
  return { ...open, limits: { ...defaultQuotas, [level]: { ...defaultQuotas[level], ...quota } } };
}

function made(
  rig: CoreRig,
  session: number,
  name: string,
  sharing?: Sharing,
  descriptor = hostArray,
) {
  const fields = {
    name,
    lifetime: "pinned",
    descriptor,
    ...(sharing === undefined ? {} : { sharing }),
  } as const;
  const { object } = rig.result(session, "create", fields, [rig.fd()]);
  rig.result(session, "publish", { object: object as number });
}

function refusalOf(work: () => unknown): string {
  try {
    work();
  } catch (error) {
    assert.ok(hasCode(error, "UNTRUSTED_PEER") || hasCode(error, "LIMIT_EXCEEDED"), String(error));
    return `${error.code}: ${error.message}`;
  }
  return "none";
}

function messageOf(rig: CoreRig, session: number, name: string): string {
  const { reply } = rig.ask(session, "open", { name, access: "read", wait: false });
  return reply.ok ? "ok" : `${reply.error.code}: ${reply.error.message}`;
}

describe("the served users", () => {
  const serves = (policy: HubPolicy, user: Partial<typeof ALICE>) =>
    refusalOf(() => new CoreRig(policy).greeted(1, "p", peerOf(9, user)));

  it("are the hub's own user, and users of the policy by uid or group", () => {
    const own = privatePolicy(HUB_UID);
    assert.equal(serves(own, {}), "none");
    assert.match(
      serves(own, ALICE),
      /^UNTRUSTED_PEER: Cannot serve user 1: this hub belongs to user 500/,
    );
    assert.match(serves(own, { uid: 0 }), /^UNTRUSTED_PEER/);
    assert.equal(serves({ ...own, users: new Set([1]) }, ALICE), "none");
    assert.match(serves({ ...own, users: new Set([1]) }, BOB), /^UNTRUSTED_PEER/);
    assert.equal(serves({ ...own, groups: new Set([10]) }, ALICE), "none");
    assert.equal(serves({ ...own, groups: new Set([10]) }, CARL), "none");
    assert.match(serves({ ...own, groups: new Set([10]) }, BOB), /^UNTRUSTED_PEER/);
    assert.equal(serves(open, BOB), "none");
  });
});

describe("access to an object", () => {
  for (const [sharing, wanted] of [
    [
      { with: "private", access: "read-write" },
      { alice: "rw", bob: "", carl: "", root: "rw", hub: "" },
    ],
    [
      { with: "group", access: "read" },
      { alice: "rw", bob: "", carl: "r", root: "rw", hub: "" },
    ],
    [
      { with: "group", access: "read-write" },
      { alice: "rw", bob: "", carl: "rw", root: "rw", hub: "" },
    ],
    [
      { with: "all", access: "read" },
      { alice: "rw", bob: "r", carl: "r", root: "rw", hub: "r" },
    ],
    [
      { with: "all", access: "read-write" },
      { alice: "rw", bob: "rw", carl: "rw", root: "rw", hub: "rw" },
    ],
  ] as const) {
    it(`that is shared with ${sharing.with} for ${sharing.access}`, () => {
      const rig = new CoreRig(open);
      const users = {
        alice: ALICE,
        bob: BOB,
        carl: CARL,
        root: { uid: 0, gid: 0, groups: [0] },
        hub: {},
      };
      rig.greeted(1, "owner", peerOf(99, ALICE));
      made(rig, 1, "x", sharing);
      const found = Object.entries(users).map(([name, user], index) => {
        const session = rig.greeted(10 + index, name, peerOf(100 + index, user));
        const may = (access: "read" | "read-write") =>
          rig.ask(session, "open", { name: "x", access, wait: false }).reply.ok;
        const sees = (rig.result(session, "list", {}).objects as unknown[]).length === 1;
        assert.equal(sees, may("read"));
        assert.equal(rig.ask(session, "inspect", { name: "x" }).reply.ok, may("read"));
        return [name, `${may("read") ? "r" : ""}${may("read-write") ? "w" : ""}`];
      });
      assert.deepEqual(Object.fromEntries(found), wanted);
    });
  }

  it("can be removed only by its owner's user and root", () => {
    const rig = new CoreRig(open);
    rig.greeted(1, "owner", peerOf(99, ALICE));
    for (const name of ["x", "y"]) made(rig, 1, name, { with: "all", access: "read-write" });
    for (const [session, user] of [
      [2, BOB],
      [3, CARL],
      [4, {}],
    ] as const) {
      rig.greeted(session, "p", peerOf(100 + session, user));
      assert.equal(rig.failure(session, "remove", { name: "x" }), "PERMISSION_DENIED");
    }
    rig.greeted(5, "p", peerOf(105, ALICE));
    rig.result(5, "remove", { name: "x" });
    rig.greeted(6, "p", peerOf(106, { uid: 0 }));
    rig.result(6, "remove", { name: "y" });
  });

  it("is not granted read-only if the kernel would let others write", () => {
    const rig = new CoreRig(open);
    let othersMayWrite = true;
    rig.greeted(1, "owner", peerOf(99, ALICE));
    const create = (sharing: Sharing, descriptor = hostArray) =>
      rig.ask(1, "create", { name: `n${rig.open.size}`, lifetime: "pinned", descriptor, sharing }, [
        rig.fd({ othersMayWrite }),
      ]).reply.ok;
    assert.equal(create({ with: "all", access: "read" }), false);
    assert.equal(create({ with: "group", access: "read" }), false);
    assert.equal(create({ with: "all", access: "read-write" }, timelineDescriptor), false);
    assert.equal(create({ with: "private", access: "read" }), true);
    assert.equal(create({ with: "all", access: "read-write" }), true);
    assert.equal(create({ with: "all", access: "read" }, gpuArray), true);
    othersMayWrite = false;
    assert.equal(create({ with: "all", access: "read" }), true);
  });
});

describe("limits", () => {
  const bytes = hostArray.allocationByteLength;
  const cases: readonly (readonly [Partial<Quota>, number, RegExp])[] = [
    [{ objects: 2 }, 2, /objects, and 1 more would be over its limit of 2/],
    [{ descriptors: 2 }, 2, /file descriptors of objects, and 1 more would be over its limit of 2/],
    [{ hostBytes: 2 * bytes }, 2, /bytes of host memory/],
    [{ leases: 2 }, 2, /leases/],
  ];
  for (const [quota, most, words] of cases) {
    for (const level of ["hub", "user", "client"] as const) {
      it(`of ${Object.keys(quota)} hold for the ${level}, and releases free them again`, () => {
        const rig = new CoreRig(limited(level, quota));
        rig.greeted(1, "p", peerOf(1, ALICE));
        rig.greeted(2, "p", peerOf(2, ALICE));
        rig.greeted(3, "p", peerOf(3, BOB));
        const create = (session: number, name: string) => {
          const { reply } = rig.ask(
            session,
            "create",
            { name, lifetime: "held", descriptor: hostArray },
            [rig.fd()],
          );
          return reply.ok ? (reply.result as { lease: number }).lease : reply.error.message;
        };
        const leases = Array.from({ length: most }, (_, i) => create(1, `x${i}`));
        const refused = create(1, "over");
        assert.ok(typeof refused === "string" && words.test(refused), String(refused));
        assert.ok(refused.includes(`(limits.${level}.${Object.keys(quota)})`), refused);
        assert.equal(rig.open.size, most);
        assert.equal(typeof create(2, "same-user"), level === "client" ? "number" : "string");
        assert.equal(typeof create(3, "other-user"), level === "hub" ? "string" : "number");
        rig.result(1, "release", { lease: leases[0] as number });
        assert.equal(typeof create(1, "again"), "number");
      });
    }
  }

  it("of one user name that user", () => {
    const userLimits = new Map([[BOB.uid, { ...defaultQuotas.user, waitingOpens: 0, clients: 1 }]]);
    const rig = new CoreRig({ ...open, userLimits });
    rig.greeted(1, "p", peerOf(1, BOB));
    rig.greeted(2, "p", peerOf(2, ALICE));
    const wait = { name: "n", access: "read", wait: true } as const;
    const { reply } = rig.ask(1, "open", wait);
    assert.match(
      reply.ok ? "" : reply.error.message,
      /user 2 has 0 waiting opens, .+\(userLimits\.2\.waitingOpens\)$/,
    );
    assert.match(
      refusalOf(() => rig.core.connected(3, peerOf(3, BOB))),
      /^LIMIT_EXCEEDED: Cannot serve another client: .+\(userLimits\.2\.clients\)$/,
    );
    rig.send(2, "open", wait);
    assert.equal(rig.result(2, "status", {}).waitingOpens, 1);
    assert.match(messageOf(rig, 2, "n"), /^NOT_FOUND/);
  });

  it("of messages pause only the client that sends too many", () => {
    const userLimits = new Map([[BOB.uid, { ...defaultQuotas.user, messagesPerSecond: 10 }]]);
    const rig = new CoreRig({ ...open, userLimits });
    rig.greeted(1, "p", peerOf(1, BOB));
    rig.greeted(2, "p", peerOf(2, ALICE));
    const ask = (session: number) => rig.ask(session, "list", {}).reply.ok;
    assert.deepEqual(Array.from({ length: 10 }, () => ask(1)).filter((ok) => ok).length, 9);
    assert.deepEqual(rig.paused, [{ connection: 1, milliseconds: 100 }]);
    assert.ok(Array.from({ length: 50 }, () => ask(2)).every((ok) => ok));
    rig.monotonic += 100;
    assert.deepEqual([ask(1), ask(1)], [true, false]);
  });
});

describe("the status", () => {
  it("lists the limits and the asking client's usage", () => {
    const rig = new CoreRig(limited("user", { objects: 5 }));
    rig.greeted(1, "p", peerOf(1, ALICE));
    rig.greeted(2, "p", peerOf(2, BOB));
    made(rig, 1, "x");
    const ofUser = (session: number) =>
      (rig.result(session, "status", {}).limits as { of: string }[]).filter(
        ({ of }) => of === "user",
      );
    assert.deepEqual(ofUser(1), [{ of: "user", resource: "objects", limit: 5, used: 1 }]);
    assert.deepEqual(ofUser(2), [{ of: "user", resource: "objects", limit: 5, used: 0 }]);
  });

  it("lists all users for the hub's user and root, as many as fit, and for others only themselves", () => {
    const rig = new CoreRig({ ...limited("hub", { clients: 5000 }) });
    for (let i = 1; i <= 900; i += 1) rig.greeted(i, "p", peerOf(i, { uid: 1000 + i }));
    const users = (session: number) => {
      const { users, usersLeftOut } = rig.result(session, "status", {});
      return { shown: (users as { uid: number }[]).map(({ uid }) => uid), usersLeftOut };
    };
    assert.deepEqual(users(7), { shown: [1007], usersLeftOut: 0 });
    rig.greeted(5000, "p", peerOf(5000));
    rig.greeted(5001, "p", peerOf(5001, { uid: 0 }));
    for (const session of [5000, 5001]) {
      const { shown, usersLeftOut } = users(session);
      assert.ok(shown.length > 100 && shown.length < 902);
      assert.equal(shown.length + Number(usersLeftOut), 902);
    }
  });
});
