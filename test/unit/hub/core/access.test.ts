import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  checkMayManage,
  checkMayOpen,
  checkMayRule,
  type Guarded,
  mayOpen,
} from "../../../../src/hub/core/access.js";
import {
  defaultQuotas,
  type HubPolicy,
  isServed,
  privatePolicy,
} from "../../../../src/hub/limits/policy.js";
import { peerOf } from "../../../support/core-rig.js";

const owner = peerOf(1, { uid: 1001, gid: 100 });
const sameUser = peerOf(2, { uid: 1001, gid: 200 });
const sameGroup = peerOf(3, { uid: 1002, gid: 100 });
const inGroup = peerOf(4, { uid: 1002, gid: 200, groups: [300, 100] });
const stranger = peerOf(5, { uid: 1003, gid: 300, groups: [200] });
const root = peerOf(6, { uid: 0, gid: 0 });
const everybody = [owner, sameUser, root, sameGroup, inGroup, stranger];

function shared(whom: "private" | "group" | "all", access: "read" | "read-write"): Guarded {
  return { name: "frame", sharing: { with: whom, access }, owner: { uid: 1001, gid: 100 } };
}

/** The access of each user to the object, as marks. */
function allowed(object: Guarded): string {
  const marks = everybody.map(
    (peer) =>
      `${mayOpen(object, peer, "read") ? "r" : "-"}${mayOpen(object, peer, "read-write") ? "w" : "-"}`,
  );
  return marks.join(" ");
}

describe("an object that is shared", () => {
  it("with nobody is open only to the owner's user and root", () => {
    assert.equal(allowed(shared("private", "read-write")), "rw rw rw -- -- --");
  });

  it("with a group is open to members of the owner's group with the granted access", () => {
    assert.equal(allowed(shared("group", "read")), "rw rw rw r- r- --");
    assert.equal(allowed(shared("group", "read-write")), "rw rw rw rw rw --");
  });

  it("with all is open to everybody with the granted access", () => {
    assert.equal(allowed(shared("all", "read")), "rw rw rw r- r- r-");
    assert.equal(allowed(shared("all", "read-write")), "rw rw rw rw rw rw");
  });

  it("is refused with an error that names the request, the owner and the asking user", () => {
    assert.throws(() => checkMayOpen(shared("private", "read"), stranger, "read"), {
      code: "PERMISSION_DENIED",
      message:
        'Cannot open "frame" for reading: it belongs to user 1001, is not shared, and user 1003 asked. ' +
        "Its creator can share it with the option `sharing`.",
    });
    assert.throws(
      () => checkMayOpen(shared("all", "read"), stranger, "read-write"),
      /for writing: .*shared with all users \(read\)/,
    );
    assert.throws(
      () => checkMayOpen(shared("group", "read"), stranger, "read"),
      /shared with group 100 \(read\)/,
    );
    checkMayOpen(shared("all", "read"), stranger, "read");
  });

  it("is managed only by its owner's user and root", () => {
    for (const peer of [owner, sameUser, root])
      checkMayManage(shared("private", "read"), peer, "remove");
    for (const peer of [sameGroup, inGroup, stranger]) {
      const manage = () => checkMayManage(shared("all", "read-write"), peer, "remove");
      assert.throws(manage, { code: "PERMISSION_DENIED", message: /^Cannot remove "frame"/ });
    }
  });
});

describe("a hub", () => {
  it("is ruled only by its own user and root", () => {
    for (const peer of [owner, sameUser, root]) checkMayRule(1001, peer, "stop");
    assert.throws(() => checkMayRule(1001, stranger, "stop"), {
      code: "PERMISSION_DENIED",
      message: /user 1001.*user 1003/,
    });
  });

  it("serves its own user and the configured users", () => {
    const base: HubPolicy = { ...privatePolicy(1001), limits: defaultQuotas };
    const served = (policy: HubPolicy) =>
      everybody.map((peer) => (isServed(policy, peer) ? "s" : "-")).join("");
    assert.equal(served(base), "ss----");
    assert.equal(served({ ...base, users: "all" }), "ssssss");
    assert.equal(served({ ...base, users: new Set([1003]) }), "ss---s");
    assert.equal(served({ ...base, groups: new Set([100]) }), "ss-ss-");
    assert.equal(served({ ...base, groups: new Set([300]) }), "ss--ss");
  });
});
