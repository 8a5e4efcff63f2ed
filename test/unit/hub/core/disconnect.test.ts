/** The end of a session that somebody else asks for. Its process lives, and may go on. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { HUB_UID, peerOf } from "../../../support/core-rig.js";
import { begin, create, open, page, rig, roomBell, written } from "./channel-rig.js";

const ALICE = { uid: HUB_UID + 1 };
const BOB = { uid: HUB_UID + 2 };

function sessionOf(connection: number): number {
  const { clients } = rig.result(1, "clients", {}) as {
    clients: { session: number; pid: number }[];
  };
  const found = clients.find(({ pid }) => pid === 1000 + connection);
  assert.ok(found !== undefined, `connection ${connection}`);
  return found.session;
}

const status = () =>
  rig.result(1, "status", {}) as { clients: number; leases: number; waitingOpens: number };

beforeEach(begin);

describe("disconnect", () => {
  it("tells the client, hangs up, and takes no more of its messages", () => {
    const session = sessionOf(2);
    rig.result(1, "disconnect", { session });
    const [farewell] = rig.answersTo(2, 0);
    assert.ok(farewell !== undefined && !farewell.reply.ok);
    assert.equal(farewell.reply.error.code, "DISCONNECTED");
    assert.match(farewell.reply.error.message, /by process 1001 of user 500$/);
    assert.deepEqual(rig.hungUp, [2]);
    const late = rig.send(2, "status", {});
    assert.deepEqual(rig.codes(2, late), []);
  });

  it("is reported once, with the process that asked for it", () => {
    const session = sessionOf(2);
    for (let i = 0; i < 2; i += 1) rig.result(1, "disconnect", { session });
    assert.deepEqual(rig.disconnections, [`session ${session} (test) by 1001`]);
  });

  it("ends the waits of the client, and its seats, but keeps its leases", () => {
    create();
    const { place = -1 } = open(2);
    written();
    rig.send(2, "open", { name: "later", access: "read", wait: true });
    rig.result(1, "disconnect", { session: sessionOf(2) });
    assert.deepEqual(written(), [`${page(place)} end place`, `${roomBell()} ring`]);
    const { leases, waitingOpens } = status();
    assert.deepEqual([leases, waitingOpens], [2, 0]);
    assert.notEqual(open(3).place, place, "its process may still write to the page");
    rig.core.hungUp(2);
    assert.equal(status().leases, 3);
    rig.core.processEnded(2);
    assert.equal(status().leases, 2);
    assert.equal(open(4).place, place);
  });

  it("ends everything once the client comes back, as another session", () => {
    create();
    open(2);
    const session = sessionOf(2);
    rig.result(1, "disconnect", { session });
    rig.core.hungUp(2);
    const { resumed, session: next } = rig.resumed(9, session, peerOf(1002));
    assert.deepEqual([resumed, next !== session], [false, true]);
    assert.deepEqual(rig.forgotten, [2]);
    assert.equal(status().leases, 1);
    assert.equal(rig.failure(1, "disconnect", { session }), "NOT_FOUND");
  });

  it("is done once, also for a client that is gone", () => {
    create();
    open(2);
    const session = sessionOf(2);
    rig.core.hungUp(2);
    rig.result(1, "disconnect", { session });
    rig.result(1, "disconnect", { session });
    assert.deepEqual([rig.answersTo(2, 0).length, rig.hungUp.length], [0, 0]);
  });

  it("is for the user of the client, the user of the hub and root", () => {
    rig.greeted(11, "hers", peerOf(1011, ALICE));
    rig.greeted(12, "his", peerOf(1012, BOB));
    rig.greeted(13, "hers, too", peerOf(1013, ALICE));
    rig.greeted(14, "root's", peerOf(1014, { uid: 0 }));
    const [hers, his, second] = [sessionOf(11), sessionOf(12), sessionOf(13)];
    assert.equal(rig.failure(12, "disconnect", { session: hers }), "NOT_FOUND");
    assert.equal(rig.failure(12, "disconnect", { session: 999_999 }), "NOT_FOUND");
    assert.deepEqual(rig.hungUp, []);
    rig.result(13, "disconnect", { session: hers });
    rig.result(14, "disconnect", { session: second });
    rig.result(1, "disconnect", { session: his });
    assert.deepEqual(rig.hungUp, [11, 13, 12]);
  });
});
