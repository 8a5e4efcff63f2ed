import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../../src/base/limits.js";
import { NewClients, type NewClientsHandler } from "../../../../src/hub/connections/new-clients.js";
import { UserTurns } from "../../../../src/hub/connections/user-turns.js";
import type { SeqpacketSocket } from "../../../../src/os/seqpacket.js";
import type { SeqpacketListener } from "../../../../src/os/seqpacket-listener.js";
import { until } from "../../../support/until.js";

const FEW_FILES = 32 * 4;

/** New clients with only a uid, on a clock that stands still unless told otherwise. */
function rig({ openFilesMax = Number.POSITIVE_INFINITY, admitMs = 0, acceptMs = 0 } = {}) {
  let nowMs = 0;
  const turns = new UserTurns(
    (error) => assert.fail(String(error)),
    () => nowMs,
  );
  const uids = new Map<SeqpacketSocket, number>();
  const queue: SeqpacketSocket[] = [];
  const admitted: number[] = [];
  const hungUp: number[] = [];
  const crowds: number[] = [];
  const handler: NewClientsHandler = {
    admit(socket) {
      nowMs += admitMs;
      admitted.push(uids.get(socket) as number);
    },
    hangUp: (_socket, uid) => hungUp.push(uid),
    onCrowd: (uid) => crowds.push(uid),
  };
  const newClients = new NewClients(turns, openFilesMax, handler, () => nowMs);
  const listener: Pick<SeqpacketListener, "tryAccept"> = {
    tryAccept() {
      nowMs += acceptMs;
      return queue.shift();
    },
  };
  return {
    newClients,
    admitted,
    hungUp,
    crowds,
    turns,
    /** Lets `count` clients connect as this user. */
    connect(uid: number, count: number) {
      for (let index = 0; index < count; index += 1) {
        const socket = { peerCredentials: () => ({ pid: 1, uid, gid: 1 }) } as SeqpacketSocket;
        uids.set(socket, uid);
        queue.push(socket);
      }
    },
    acceptAll() {
      while (newClients.acceptFrom(listener));
    },
    accept: () => newClients.acceptFrom(listener),
  };
}

describe("new clients", () => {
  it("are admitted in order of arrival", () => {
    const { connect, acceptAll, admitted } = rig();
    connect(1, 2);
    connect(2, 1);
    acceptAll();
    assert.deepEqual(admitted, [1, 1, 2]);
  });

  it("do not wait for earlier clients of another user", async () => {
    const { connect, acceptAll, admitted, turns } = rig({ admitMs: 0.5 });
    connect(1, 50);
    connect(2, 1);
    acceptAll();
    await until("user 2 is admitted", () => admitted.includes(2));
    assert.ok(admitted.indexOf(2) <= 2, `after ${admitted.indexOf(2)} others`);
    turns.close();
  });

  it("are accepted in parts, and the event loop goes on", () => {
    const { connect, accept, admitted } = rig();
    connect(1, 2 * limits.hubAcceptsPerTurn);
    assert.equal(accept(), true);
    assert.ok(admitted.length <= limits.hubAcceptsPerTurn);
  });

  it("are disconnected if too many wait, starting with the user that has most", async () => {
    const { connect, acceptAll, admitted, hungUp, crowds, turns } = rig({
      openFilesMax: FEW_FILES,
      admitMs: 0.5,
    });
    connect(1, 30);
    connect(2, 2);
    acceptAll();
    await until("nobody waits", () => admitted.length + hungUp.length === 32);
    assert.ok(hungUp.length > 0);
    assert.deepEqual(new Set([...hungUp, ...crowds]), new Set([1]));
    assert.equal(admitted.filter((uid) => uid === 2).length, 2);
    turns.close();
  });

  it("cost their user time when they are accepted", async () => {
    const { connect, accept, admitted, turns } = rig({ acceptMs: 0.125 });
    connect(1, 8);
    connect(2, 1);
    accept();
    assert.deepEqual(admitted, []);
    while (accept());
    assert.deepEqual(admitted, [2]);
    await until("all are admitted", () => admitted.length === 9);
    turns.close();
  });

  it("that still wait when the hub closes are hung up on without onCrowd", () => {
    const { newClients, connect, acceptAll, admitted, hungUp, crowds, turns } = rig({
      admitMs: 0.5,
    });
    connect(1, 5);
    acceptAll();
    newClients.close();
    assert.equal(admitted.length + hungUp.length, 5);
    assert.ok(hungUp.length > 0);
    assert.deepEqual(crowds, []);
    turns.close();
  });
});
