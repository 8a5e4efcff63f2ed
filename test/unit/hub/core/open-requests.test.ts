import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { privatePolicy } from "../../../../src/hub/limits/policy.js";
import { encodeMessage } from "../../../../src/wire/codec.js";
import { CoreRig, HUB_UID, peerOf } from "../../../support/core-rig.js";
import { gpuArray, hostBundle } from "../../../support/messages.js";
import { create, published, READ, READ_NOW } from "./core-requests.js";

describe("open", () => {
  it("sends a reader of host memory a read-only descriptor, and closes it after sending", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const { fds } = published(rig, 1, "frame");
    const { fds: sent } = rig.ask(1, "open", { name: "frame", ...READ });
    assert.equal(sent.length, 1);
    assert.notEqual(sent[0], fds[0]);
    assert.deepEqual([...rig.open], fds);
  });

  it("sends the memory's own descriptor to writers, and to readers of GPU memory", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const host = published(rig, 1, "host");
    const gpu = published(rig, 1, "gpu", "held", gpuArray);
    assert.deepEqual(
      rig.ask(1, "open", { name: "host", access: "read-write", wait: false }).fds,
      host.fds,
    );
    assert.deepEqual(rig.ask(1, "open", { name: "gpu", ...READ_NOW }).fds, gpu.fds);
  });

  it("sends a bundle's index as well", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const { fds } = published(rig, 1, "model", "held", hostBundle(1, 200));
    const { fds: sent } = rig.ask(1, "open", { name: "model", ...READ });
    assert.deepEqual([sent.length, sent[1]], [2, fds[1]]);
  });

  it("leaves no lease if its descriptor cannot be made", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    published(rig, 1, "frame");
    rig.reopenFailure = new CudaIpcError("TOO_MANY_FDS", "full");
    assert.equal(rig.failure(1, "open", { name: "frame", ...READ }), "TOO_MANY_FDS");
    assert.equal(rig.result(1, "status", {}).leases, 1);
  });

  it("waits for a removed name until it is published again", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const old = published(rig, 1, "frame");
    rig.result(1, "remove", { name: "frame" });
    const wait = rig.send(1, "open", { name: "frame", ...READ });
    rig.result(1, "publish", { object: old.object });
    assert.deepEqual(rig.codes(1, wait), []);
    const { object } = published(rig, 1, "frame");
    const [answer] = rig.answersTo(1, wait);
    assert.ok(answer?.reply.ok);
    assert.equal((answer.reply.result as { object: number }).object, object);
    assert.notEqual(object, old.object);
  });

  it("refuses a second wait with the same id, and waits over the limit", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const message = encodeMessage({ v: 1, id: 999_999, op: "open", name: "frame", ...READ });
    rig.core.packet(1, message, []);
    rig.core.packet(1, message, []);
    assert.deepEqual(rig.codes(1, 999_999), ["INVALID_MESSAGE"]);
    for (let i = 1; i < limits.waitingOpensPerClientMax; i += 1)
      rig.send(1, "open", { name: "frame", ...READ });
    assert.equal(rig.failure(1, "open", { name: "frame", ...READ }), "LIMIT_EXCEEDED");
    assert.equal(rig.result(1, "status", {}).waitingOpens, limits.waitingOpensPerClientMax);
  });

  it('stops waiting when the session hangs up, says "bye" or dies', () => {
    const rig = new CoreRig();
    for (const id of [1, 2, 3, 4]) rig.greeted(id);
    for (const id of [2, 3, 4]) rig.send(id, "open", { name: "frame", ...READ });
    assert.equal(rig.result(1, "status", {}).waitingOpens, 3);
    create(rig, 2, "of-2");
    rig.core.hungUp(2);
    assert.equal(rig.result(1, "status", {}).waitingOpens, 2);
    rig.result(3, "bye", {});
    rig.core.processEnded(4);
    assert.equal(rig.result(1, "status", {}).waitingOpens, 0);
    published(rig, 1, "frame");
    assert.equal(rig.result(1, "status", {}).leases, 2);
  });
});

describe("cancel", () => {
  it("answers the open once with ABORTED, and then itself", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const wait = rig.send(1, "open", { name: "frame", ...READ });
    rig.result(1, "cancel", { request: wait });
    rig.result(1, "cancel", { request: wait });
    assert.deepEqual(rig.codes(1, wait), ["ABORTED"]);
    published(rig, 1, "frame");
    assert.deepEqual(rig.codes(1, wait), ["ABORTED"]);
  });

  it("explains the wait on request, without facts that the client may not see", () => {
    const rig = new CoreRig({ ...privatePolicy(HUB_UID), users: "all" });
    for (const connection of [1, 2]) rig.greeted(connection);
    rig.greeted(3, "test", peerOf(3, { uid: HUB_UID + 1, gid: HUB_UID + 1 }));
    const why = (connection: number, name: string, explain = true) => {
      const request = rig.send(connection, "open", { name, ...READ });
      return rig.result(connection, "cancel", { request, explain });
    };
    create(rig, 1, "frame");
    assert.deepEqual(why(2, "other"), { found: 'no process has created "other"' });
    assert.match(
      String(why(2, "frame").found),
      /^process \d+ \(.+\) created it and has not published it yet$/,
    );
    assert.deepEqual(why(3, "frame"), { found: "it is not published yet" });
    assert.deepEqual(why(2, "other", false), {});
    assert.deepEqual(rig.result(2, "cancel", { request: 4711, explain: true }), {});
  });

  it("changes nothing for an answered open or another client's open", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    const other = rig.send(2, "open", { name: "frame", ...READ });
    rig.result(1, "cancel", { request: other });
    published(rig, 1, "frame");
    rig.result(2, "cancel", { request: other });
    assert.deepEqual(rig.codes(2, other), ["ok"]);
  });
});
