import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkMayManage, checkMayOpen, checkMayRule, type Guarded, mayOpen } from "../../../src/hub/access.js";
import { defaultQuotas, type HubPolicy, isServed, privatePolicy } from "../../../src/hub/policy.js";
import { peerOf } from "../../support/core-rig.js";

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

/** Who of everybody may read, and who may write. */
function allowed(object: Guarded): string {
  const marks = everybody.map(
    (peer) => `${mayOpen(object, peer, "read") ? "r" : "-"}${mayOpen(object, peer, "read-write") ? "w" : "-"}`,
  );
  return marks.join(" ");
}

describe("what is shared", () => {
  it("with nobody is for the owner's user and root alone", () => {
    assert.equal(allowed(shared("private", "read-write")), "rw rw rw -- -- --");
  });

  it("with a group is for who has the owner's group, first or among others, as far as it says", () => {
    assert.equal(allowed(shared("group", "read")), "rw rw rw r- r- --");
    assert.equal(allowed(shared("group", "read-write")), "rw rw rw rw rw --");
  });

  it("with all is for all, as far as it says", () => {
    assert.equal(allowed(shared("all", "read")), "rw rw rw r- r- r-");
    assert.equal(allowed(shared("all", "read-write")), "rw rw rw rw rw rw");
  });

  it("is refused with what was asked, whose it is, and who asked", () => {
    assert.throws(() => checkMayOpen(shared("private", "read"), stranger, "read"), {
      code: "PERMISSION_DENIED",
      message:
        'Cannot open "frame" for reading: it is of user 1001, shared with that user alone, and asked for by user 1003; ' +
        "whoever creates it decides whom it is shared with (the option `sharing`)",
    });
    assert.throws(
      () => checkMayOpen(shared("all", "read"), stranger, "read-write"),
      /for writing: .*shared with all \(read\)/,
    );
    assert.throws(() => checkMayOpen(shared("group", "read"), stranger, "read"), /shared with group 100 \(read\)/);
    checkMayOpen(shared("all", "read"), stranger, "read");
  });

  it("is managed by its owner's user and root, however it is shared", () => {
    for (const peer of [owner, sameUser, root]) checkMayManage(shared("private", "read"), peer, "remove");
    for (const peer of [sameGroup, inGroup, stranger]) {
      const manage = () => checkMayManage(shared("all", "read-write"), peer, "remove");
      assert.throws(manage, { code: "PERMISSION_DENIED", message: /^Cannot remove "frame"/ });
    }
  });
});

describe("a hub", () => {
  it("is ruled by its own user and root", () => {
    for (const peer of [owner, sameUser, root]) checkMayRule(1001, peer, "stop");
    assert.throws(() => checkMayRule(1001, stranger, "stop"), {
      code: "PERMISSION_DENIED",
      message: /user 1001.*user 1003/,
    });
  });

  it("serves its own user, and others as it is set up to", () => {
    const base: HubPolicy = { ...privatePolicy(1001), limits: defaultQuotas };
    const served = (policy: HubPolicy) => everybody.map((peer) => (isServed(policy, peer) ? "s" : "-")).join("");
    assert.equal(served(base), "ss----");
    assert.equal(served({ ...base, users: "all" }), "ssssss");
    assert.equal(served({ ...base, users: new Set([1003]) }), "ss---s");
    assert.equal(served({ ...base, groups: new Set([100]) }), "ss-ss-");
    assert.equal(served({ ...base, groups: new Set([300]) }), "ss--ss");
  });
});
