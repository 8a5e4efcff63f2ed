import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { privatePolicy } from "../../../../src/hub/limits/policy.js";
import { recordsOf, replay } from "../../../../src/hub/restart/hub-records.js";
import type { Descriptor } from "../../../../src/wire/descriptor.js";
import type { Lifetime, Sharing } from "../../../../src/wire/messages.js";
import { CoreRig, HUB_UID, peerOf } from "../../../support/core-rig.js";
import { gpuArray, hostArray, timelineDescriptor } from "../../../support/messages.js";

const READ = { access: "read", wait: true } as const;
const WRITE_NOW = { access: "read-write", wait: false } as const;
const OWNER = peerOf(1001);
const READER = peerOf(1002);
const STRANGER = peerOf(1003, { uid: 7, gid: 7 });
const SERVING_ALL = { ...privatePolicy(HUB_UID), users: "all" } as const;

interface Shared {
  readonly rig: CoreRig;
  readonly object: number;
  readonly owner: { readonly session: number; readonly lease: number };
  readonly reader: { readonly session: number; readonly lease: number };
  /** The descriptor of the memory in the hub that died. */
  readonly fd: number;
}

/** Makes an owner and a reader of a published object, in a hub that then dies. */
function shared(
  descriptor: Descriptor = hostArray,
  more: { lifetime?: Lifetime; sharing?: Sharing; reader?: typeof READER } = {},
): Shared {
  const rig = new CoreRig(SERVING_ALL);
  const sessions = [OWNER, more.reader ?? READER].map((peer, index) => {
    rig.core.connected(index + 1, peer);
    return rig.result(index + 1, "hello", { client: { version: "1", program: "test" } })
      .session as number;
  });
  const fd = rig.fd();
  const { sharing = { with: "all", access: "read" }, lifetime = "held" } = more;
  const { object, lease } = rig.result(
    1,
    "create",
    { name: "frame", lifetime, descriptor, sharing },
    [fd],
  );
  rig.result(1, "publish", { object: object as number });
  const opened = rig.result(2, "open", { name: "frame", ...READ });
  return {
    rig,
    object: object as number,
    owner: { session: sessions[0] as number, lease: lease as number },
    reader: { session: sessions[1] as number, lease: opened.lease as number },
    fd,
  };
}

/**
 * The next hub, with the state of the journal. It watches the process of the n-th recorded session
 * as connection -n.
 */
function nextHub({ rig }: Shared, records = rig.records): CoreRig {
  const next = new CoreRig(SERVING_ALL, 1000);
  const state = replay(records);
  const connections = [...state.sessions.values()].map((session, index) => {
    return { id: -1 - index, peer: session, session };
  });
  next.core.inherit({ state, connections, memory: new Map() });
  return next;
}

/** A descriptor of the same memory, as one of its holders brings it. */
function broughtBack(next: CoreRig, { rig, fd }: Shared, writable = true): number {
  return next.fd({ ...rig.facts.get(fd), writable });
}

describe("after a crash of the hub", () => {
  it("names, numbers and leases are unchanged, and opens wait until a holder brings the memory", () => {
    const was = shared();
    const next = nextHub(was);
    assert.deepEqual(next.core.state().leases, was.rig.core.state().leases);
    next.resumed(5, was.reader.session, READER);
    const wait = next.send(5, "open", { name: "frame", ...READ });
    assert.equal(
      next.failure(5, "open", { name: "frame", access: "read", wait: false }),
      "NOT_FOUND",
    );
    assert.deepEqual([next.codes(5, wait), next.result(5, "status", {}).withoutMemory], [[], 1]);
    next.result(5, "restore", { lease: was.reader.lease }, [broughtBack(next, was, false)]);
    assert.deepEqual(
      [next.codes(5, wait), next.result(5, "status", {}).withoutMemory],
      [["ok"], 0],
    );
    const [granted] = next.answersTo(5, wait);
    assert.ok(granted?.reply.ok);
    assert.equal((granted.reply.result as { object: number }).object, was.object);
    assert.equal(next.open.size, 1);
  });

  it("no number is reused", () => {
    const was = shared();
    const next = nextHub(was);
    const { session } = next.resumed(5, 1, peerOf(9));
    assert.ok((session as number) > 1000);
    const fromState = new CoreRig(SERVING_ALL, 0);
    const state = replay([...recordsOf(was.rig.core.state())]);
    fromState.core.inherit({ state, connections: [], memory: new Map() });
    assert.ok((fromState.resumed(5, 1, peerOf(9)).session as number) > state.lastId);
  });

  it("unpublished and half-created objects end unless their owner lives", () => {
    const rig = new CoreRig(SERVING_ALL);
    rig.greeted(1, "test", OWNER);
    rig.result(1, "create", { name: "frame", lifetime: "pinned", descriptor: hostArray }, [
      rig.fd(),
    ]);
    const was = { ...shared(), rig };
    assert.equal(nextHub(was).core.objectCount, 1);
    const withoutLease = rig.records.filter(({ t }) => t !== "lease");
    const next = nextHub(was, withoutLease);
    assert.deepEqual([next.core.objectCount, next.core.connectionCount], [0, 0]);
    assert.deepEqual(
      next.records.map(({ t }) => t),
      ["unnamed", "object-ended", "session-ended"],
    );
  });

  it("the status fits into a message with many lost objects and many users", () => {
    const rig = new CoreRig(SERVING_ALL);
    rig.greeted(1, "test", OWNER);
    for (let index = 0; index < limits.lostObjectsMax; index += 1) {
      const name = `${index}`.padEnd(limits.nameBytesMax, "x");
      const created = { name, lifetime: "pinned", descriptor: hostArray } as const;
      const { object } = rig.result(1, "create", created, [rig.fd()]);
      rig.result(1, "publish", { object: object as number });
    }
    const next = new CoreRig(SERVING_ALL, 10_000);
    next.core.inherit({ state: replay(rig.records), connections: [], memory: new Map() });
    for (let uid = 1; uid <= 400; uid += 1)
      next.greeted(uid, "test", peerOf(2000 + uid, { uid: 2000 + uid, gid: 2000 + uid }));
    const status = next.result(next.greeted(500), "status", {}) as {
      lost: unknown[];
      users: unknown[];
      usersLeftOut: number;
    };
    assert.equal(status.lost.length, limits.lostObjectsMax);
    assert.equal(status.users.length + status.usersLeftOut, 401);
  });

  it("a pinned object without holders ends, unless its memory was kept", () => {
    const was = shared(hostArray, { lifetime: "pinned" });
    for (const id of [1, 2]) was.rig.core.processEnded(id);
    assert.equal(was.rig.core.objectCount, 1);
    assert.equal(nextHub(was).core.objectCount, 0);
    const kept = new CoreRig(SERVING_ALL);
    const memory = new Map([[was.object, { fds: [kept.fd()] as const, writable: true }]]);
    kept.core.inherit({ state: replay(was.rig.records), connections: [], memory });
    assert.deepEqual([kept.core.objectCount, kept.open.size], [1, 1]);
  });

  it("kept descriptors of ended objects are closed", () => {
    const rig = new CoreRig();
    const memory = new Map([[7, { fds: [rig.fd(), rig.fd()] as const, writable: true }]]);
    rig.core.inherit({ state: replay([]), connections: [], memory });
    assert.equal(rig.open.size, 0);
  });

  it("processes that ended meanwhile lose their leases", () => {
    const was = shared();
    const next = nextHub(was);
    next.core.processEnded(-1);
    next.core.processEnded(-2);
    assert.deepEqual([next.core.objectCount, next.core.connectionCount], [0, 0]);
  });

  it("bytes, objects and leases are counted as before", () => {
    const was = shared();
    const counts = ({ objects, leases, hostBytes }: Record<string, unknown>) => ({
      objects,
      leases,
      hostBytes,
    });
    const before = counts(was.rig.result(1, "status", {}));
    const next = nextHub(was);
    next.greeted(9);
    assert.deepEqual(counts(next.result(9, "status", {})), before);
    for (const id of [-1, -2]) next.core.processEnded(id);
    assert.deepEqual(counts(next.result(9, "status", {})), { objects: 0, leases: 0, hostBytes: 0 });
  });
});

describe("memory that is brought back", () => {
  it("is refused and closed if it is other memory or the wrong number of descriptors", () => {
    const was = shared();
    const next = nextHub(was);
    next.resumed(5, was.owner.session, OWNER);
    const { lease } = was.owner;
    assert.equal(
      next.failure(5, "restore", { lease }, [next.fd({ inode: "1:other" })]),
      "INVALID_DESCRIPTOR",
    );
    const twice = [broughtBack(next, was), broughtBack(next, was)];
    assert.equal(next.failure(5, "restore", { lease }, twice), "INVALID_MESSAGE");
    assert.deepEqual([next.open.size, next.hungUp], [0, []]);
    next.result(5, "restored", {});
    next.result(5, "restore", { lease }, [broughtBack(next, was)]);
    assert.equal(
      next.open.size,
      1,
      "the lease was named, and is held whatever became of its memory",
    );
  });

  it("of a GPU is accepted only from the owner's user", () => {
    const was = shared(gpuArray, { reader: STRANGER });
    const next = nextHub(was);
    next.resumed(5, was.reader.session, STRANGER);
    assert.equal(
      next.failure(5, "restore", { lease: was.reader.lease }, [next.fd()]),
      "PERMISSION_DENIED",
    );
    next.result(5, "restore", { lease: was.reader.lease });
    next.resumed(6, was.owner.session, OWNER);
    next.result(6, "restore", { lease: was.owner.lease }, [next.fd()]);
    assert.equal(next.open.size, 1);
  });

  it("by a reader is reopened for writing, or given only to readers until a writer brings it", () => {
    for (const reopens of [true, false]) {
      const was = shared();
      const next = nextHub(was);
      next.reopensWritable = reopens;
      next.resumed(5, was.reader.session, READER);
      next.result(5, "restore", { lease: was.reader.lease }, [broughtBack(next, was, false)]);
      next.resumed(6, was.owner.session, OWNER);
      if (!reopens)
        assert.equal(next.failure(6, "open", { name: "frame", ...WRITE_NOW }), "READ_ONLY");
      next.result(6, "restore", { lease: was.owner.lease }, [broughtBack(next, was)]);
      next.result(6, "open", { name: "frame", ...WRITE_NOW });
      assert.equal(next.open.size, 1, "each descriptor that was replaced or not needed is closed");
    }
  });

  it("is closed if it cannot be reopened for lack of descriptors, and can be brought again", () => {
    const was = shared();
    const next = nextHub(was);
    next.resumed(5, was.reader.session, READER);
    const reopenWritable = next.reopenWritable;
    next.reopenWritable = () => {
      throw new CudaIpcError("TOO_MANY_FDS", "full");
    };
    const { lease } = was.reader;
    assert.equal(
      next.failure(5, "restore", { lease }, [broughtBack(next, was, false)]),
      "TOO_MANY_FDS",
    );
    assert.equal(next.open.size, 0);
    next.reopenWritable = reopenWritable;
    next.result(5, "restore", { lease }, [broughtBack(next, was, false)]);
    assert.equal(next.open.size, 1);
  });
});

describe("a timeline after a crash of the hub", () => {
  it("whose owner has died ends when its memory comes back", () => {
    const was = shared(timelineDescriptor);
    const next = nextHub(was);
    next.core.processEnded(-1);
    assert.deepEqual([next.ended, next.core.objectCount], [[], 1]);
    next.resumed(5, was.reader.session, READER);
    next.result(5, "restore", { lease: was.reader.lease }, [broughtBack(next, was, false)]);
    assert.deepEqual(
      next.ended.map(({ byteOffset }) => byteOffset),
      [128],
    );
  });

  it("whose owner lives does not end", () => {
    const was = shared(timelineDescriptor);
    const next = nextHub(was);
    next.resumed(5, was.owner.session, OWNER);
    next.result(5, "restore", { lease: was.owner.lease }, [broughtBack(next, was)]);
    assert.deepEqual(next.ended, []);
    next.result(5, "release", { lease: was.owner.lease });
    assert.equal(next.ended.length, 1);
  });
});

describe("a read-only descriptor", () => {
  it("is not given to a client that wants to write", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const fields = { name: "frame", lifetime: "held", descriptor: hostArray } as const;
    const { object } = rig.result(1, "create", fields, [rig.fd({ writable: false })]);
    rig.result(1, "publish", { object: object as number });
    assert.equal(rig.failure(1, "open", { name: "frame", ...WRITE_NOW }), "READ_ONLY");
    rig.result(1, "open", { name: "frame", ...READ });
  });
});
