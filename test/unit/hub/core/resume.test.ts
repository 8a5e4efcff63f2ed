import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { defaultQuotas, type HubPolicy, privatePolicy } from "../../../../src/hub/limits/policy.js";
import { CoreRig, HUB_UID, peerOf } from "../../../support/core-rig.js";
import { hostArray } from "../../../support/messages.js";

const READ = { access: "read", wait: true } as const;
const PROCESS = peerOf(1001);

function begin(rig: CoreRig, connection: number, peer = PROCESS): number {
  rig.core.connected(connection, peer);
  return rig.result(connection, "hello", { client: { version: "1", program: "test" } })
    .session as number;
}

function create(rig: CoreRig, connection: number, name: string): { object: number; lease: number } {
  const result = rig.result(
    connection,
    "create",
    { name, lifetime: "held", descriptor: hostArray },
    [rig.fd()],
  );
  return result as { object: number; lease: number };
}

describe("a session that is resumed", () => {
  it("keeps its leases with the same numbers, on the new connection only", () => {
    const rig = new CoreRig();
    const session = begin(rig, 1);
    const { object, lease } = create(rig, 1, "frame");
    rig.core.hungUp(1);
    assert.deepEqual(rig.resumed(2, session, PROCESS), {
      version: "0",
      instance: "test",
      pid: 1,
      session,
      resumed: true,
    });
    assert.deepEqual([rig.forgotten, rig.core.hasConnection(1)], [[1], false]);
    rig.result(2, "publish", { object });
    rig.core.processEnded(1);
    assert.equal(rig.core.objectCount, 1, "the earlier connection is no longer watched");
    rig.result(2, "release", { lease });
    assert.equal(rig.core.objectCount, 0);
  });

  it("can be resumed before the hub notices that the earlier socket is cut", () => {
    const rig = new CoreRig();
    const session = begin(rig, 1);
    create(rig, 1, "frame");
    assert.equal(rig.resumed(2, session, PROCESS).resumed, true);
    const before = rig.answered.length;
    rig.send(1, "status", {});
    rig.core.hungUp(1);
    assert.equal(rig.answered.length, before, "no reply goes to the earlier connection");
    assert.deepEqual([rig.core.connectionCount, rig.result(2, "status", {}).clients], [1, 1]);
  });

  it("is resumed only by its own process; others get a new session", () => {
    const others = {
      "another process": peerOf(1002),
      "the same process as another user": peerOf(1001, { uid: 501 }),
      "a later process of the same number": peerOf(1001, { startTicks: 77 }),
      "a process of another namespace": peerOf(0, { startTicks: PROCESS.startTicks }),
      "a process whose start is not known": peerOf(1001, { startTicks: null }),
    };
    for (const [whose, peer] of Object.entries(others)) {
      for (const earlier of [PROCESS, peer]) {
        if (earlier.pid > 0 && earlier.startTicks !== null && earlier === peer) continue;
        const rig = new CoreRig({ ...privatePolicy(HUB_UID), users: "all" });
        const session = begin(rig, 1, earlier);
        const { lease } = create(rig, 1, "frame");
        const { resumed, session: begun } = rig.resumed(2, session, peer);
        assert.deepEqual([resumed, begun === session], [false, false], whose);
        assert.equal(rig.failure(2, "restore", { lease }), "NOT_FOUND");
        assert.deepEqual([rig.forgotten, rig.core.hasConnection(1)], [[], true]);
      }
    }
  });

  it("is recognized by the inode of its pidfds if the hub cannot see its number or start", () => {
    const unseen = peerOf(0, { startTicks: null, pidfdInode: "4711" });
    const seen = peerOf(1001, { pidfdInode: "4711", pidNamespace: 2 });
    for (const [earlier, later] of [
      [unseen, unseen],
      [unseen, seen],
      [seen, unseen],
    ] as const) {
      const rig = new CoreRig();
      const session = begin(rig, 1, earlier);
      const { lease } = create(rig, 1, "frame");
      assert.equal(rig.resumed(2, session, later).resumed, true);
      rig.result(2, "restore", { lease });
    }
  });

  it("is not resumed by a process with another inode, user or PID namespace", () => {
    const known = peerOf(1001, { pidfdInode: "4711" });
    const others = [
      [known, peerOf(1001, { pidfdInode: "4712" })],
      [known, peerOf(1001, { pidfdInode: "4711", uid: 501 })],
      [PROCESS, peerOf(1001, { pidNamespace: 2 })],
    ] as const;
    for (const [earlier, later] of others) {
      const rig = new CoreRig({ ...privatePolicy(HUB_UID), users: "all" });
      const session = begin(rig, 1, earlier);
      create(rig, 1, "frame");
      assert.equal(rig.resumed(2, session, later).resumed, false);
    }
  });

  it("is a new one if its number is unknown", () => {
    const rig = new CoreRig();
    assert.equal(rig.resumed(1, 4711, PROCESS).resumed, false);
  });

  it("drops its waiting opens, so the client can ask again", () => {
    const rig = new CoreRig();
    const session = begin(rig, 1);
    create(rig, 1, "other");
    const wait = rig.send(1, "open", { name: "frame", ...READ });
    rig.resumed(2, session, PROCESS);
    assert.equal(rig.result(2, "status", {}).waitingOpens, 0);
    const again = rig.send(2, "open", { name: "frame", ...READ });
    const { object } = create(rig, 2, "frame");
    rig.result(2, "publish", { object });
    assert.deepEqual([rig.codes(1, wait), rig.codes(2, again)], [[], ["ok"]]);
  });

  it("keeps restored leases, and releases the rest", () => {
    const rig = new CoreRig();
    const session = begin(rig, 1);
    const [kept, lost] = [create(rig, 1, "kept"), create(rig, 1, "lost")];
    rig.resumed(2, session, PROCESS);
    rig.result(2, "restore", { lease: kept.lease });
    const made = create(rig, 2, "made-meanwhile");
    assert.equal(rig.core.objectCount, 3);
    rig.result(2, "restored", {});
    assert.equal(rig.failure(2, "publish", { object: lost.object }), "NOT_FOUND");
    for (const { object } of [kept, made]) rig.result(2, "publish", { object });
    assert.equal(rig.open.size, 2);
    rig.result(2, "restored", {});
    assert.equal(rig.core.objectCount, 2, "a second time changes nothing");
  });

  it("can be resumed again if it is cut before everything is restored", () => {
    const rig = new CoreRig();
    const session = begin(rig, 1);
    const { lease } = create(rig, 1, "frame");
    rig.resumed(2, session, PROCESS);
    rig.result(2, "restore", { lease });
    rig.resumed(3, session, PROCESS);
    rig.result(3, "restore", { lease });
    rig.result(3, "restored", {});
    assert.equal(rig.core.objectCount, 1);
    rig.core.hungUp(3);
    rig.core.processEnded(3);
    assert.deepEqual([rig.core.objectCount, rig.core.connectionCount, rig.open.size], [0, 0, 0]);
  });

  it('releases nothing on "restored" if nothing had to be restored', () => {
    const rig = new CoreRig();
    begin(rig, 1);
    create(rig, 1, "frame");
    rig.result(1, "restored", {});
    assert.equal(rig.core.objectCount, 1);
  });
});

describe("a client that sends more than its rate", () => {
  const limits = { ...defaultQuotas, client: { ...defaultQuotas.client, messagesPerSecond: 4 } };
  const policy: HubPolicy = { ...privatePolicy(HUB_UID), limits };

  it("is refused with the limit's name and paused, but its releases are accepted", () => {
    const rig = new CoreRig(policy);
    begin(rig, 1);
    const { lease } = create(rig, 1, "frame");
    for (let i = 0; i < 3; i += 1) rig.result(1, "status", {});
    const { reply } = rig.ask(1, "status", {});
    assert.ok(!reply.ok && reply.error.code === "LIMIT_EXCEEDED");
    assert.match(
      reply.error.message,
      /^Cannot status: this client .* limit of 4 .*\(limits\.client\.messagesPerSecond\)/,
    );
    assert.deepEqual(rig.paused, [{ connection: 1, milliseconds: 250 }]);
    rig.result(1, "release", { lease });
    assert.equal(rig.core.objectCount, 0);
    rig.monotonic = 250;
    rig.result(1, "status", {});
  });

  it("may restore any number of its leases", () => {
    const rig = new CoreRig(policy);
    const session = begin(rig, 1);
    const leases = [0, 1, 2].map((index) => create(rig, 1, `frame-${index}`).lease);
    rig.monotonic = 10;
    rig.resumed(2, session, PROCESS);
    for (let i = 0; i < 3; i += 1) for (const lease of leases) rig.result(2, "restore", { lease });
    rig.result(2, "restored", {});
    assert.deepEqual([rig.core.objectCount, rig.paused.length > 0], [3, true]);
  });
});
