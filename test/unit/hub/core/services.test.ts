/** Services in the hub's core: which users may be workers, and who may read a client's requests. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { replay } from "../../../../src/hub/restart/hub-records.js";
import type { Descriptor } from "../../../../src/wire/descriptor.js";
import type { Replace } from "../../../../src/wire/messages.js";
import { CoreRig, peerOf } from "../../../support/core-rig.js";
import { channelOf, hostArray, replica } from "../../../support/messages.js";
import { OBSERVER, READER, SERVING_ALL } from "./channel-rig.js";

const [ALICE, BOB, CARL, ROOT, HUB] = [1, 2, 3, 4, 5];
const OFFER = "s:wa1:0";
const REQUESTS = `${OFFER}:req`;

/** The users that may be workers of an offer's service, as the hub tells root. */
function workersOf(rig: CoreRig, name: string): unknown {
  const { object } = rig.result(ROOT, "inspect", { name });
  return (object as { readonly serviceUsers?: unknown }).serviceUsers;
}

/** The hub that starts with the records of this one. The processes of its clients still run. */
function nextHub({ records }: CoreRig): CoreRig {
  const next = new CoreRig(SERVING_ALL, 1000);
  const state = replay(records);
  const connections = [...state.sessions.values()].map((session) => {
    return { id: session.uid, peer: session, session };
  });
  next.core.inherit({ state, connections, memory: new Map() });
  next.greeted(ROOT, "worker", peerOf(ROOT, { uid: 0, gid: 0 }));
  return next;
}

let rig: CoreRig;
beforeEach(() => {
  rig = new CoreRig(SERVING_ALL);
  greet();
});

function greet(): void {
  for (const [connection, uid] of [ALICE, BOB, CARL, 0, 500].entries())
    rig.greeted(connection + 1, "worker", peerOf(connection + 1, { uid, gid: uid }));
}

function made(
  user: number,
  name: string,
  descriptor: Descriptor = channelOf(),
  more: { readonly replace?: Replace; readonly workers?: number[] } = {},
) {
  const sharing = { with: "all", access: "read" } as const;
  const fields = { name, lifetime: "held", descriptor, sharing, ...more } as const;
  const { content } = descriptor;
  const fds = content.kind === "channel" ? rig.channelFds(content) : [rig.fd()];
  const { reply } = rig.ask(user, "create", fields, fds);
  if (!reply.ok) return reply.error;
  return reply.result as { readonly object: number; readonly lease: number };
}

function offered(
  user: number,
  name: string,
  ...workers: number[]
): { object: number; lease: number } {
  const found = made(user, name, undefined, workers.length > 0 ? { workers } : {});
  assert.ok("lease" in found, JSON.stringify(found));
  return found;
}

/** The replies of an offer of this user. */
function offerChannel(user: number): { readonly object: number; readonly lease: number } {
  const found = made(user, OFFER, channelOf({ readersMax: 1 }));
  assert.ok("lease" in found, JSON.stringify(found));
  rig.result(user, "publish", { object: found.object });
  return found;
}

/** A client claims the offer. Returns its lease. */
function claimed(client: number): number {
  return rig.result(client, "open", { name: OFFER, ...READER }).lease as number;
}

/** A link of this worker and this client, who has sent requests. */
function link(worker: number, client: number): { readonly lease: number } {
  const offer = offerChannel(worker);
  claimed(client);
  const requests = made(client, REQUESTS, channelOf());
  assert.ok("object" in requests, JSON.stringify(requests));
  rig.result(client, "publish", { object: requests.object });
  return offer;
}

describe("the users of a service", () => {
  it("are the first one, root and the hub's user", () => {
    offered(ALICE, OFFER);
    offered(ALICE, "s:wa2:0");
    offered(ROOT, "s:wr:0");
    offered(HUB, "s:wh:0");
    assert.deepEqual(made(BOB, "s:wb:0"), {
      code: "PERMISSION_DENIED",
      message:
        'Cannot create "s:wb:0": service "s" belongs to user 1, who has workers of it, and user ' +
        "2 asked. Only that user, root and the hub's user may be its workers. Use another name.",
    });
  });

  it("are free again after the last offer and link of the first one", () => {
    const [offer, other] = [offered(ALICE, OFFER), offered(ALICE, "s:wa2:0")];
    const code = () => (made(BOB, "s:wb:0") as { code?: string }).code;
    rig.result(ALICE, "release", { lease: offer.lease });
    assert.equal(code(), "PERMISSION_DENIED");
    rig.result(ALICE, "remove", { name: "s:wa2:0", object: other.object });
    assert.equal(code(), undefined);
    assert.match(JSON.stringify(made(ALICE, OFFER)), /belongs to user 2/);
  });

  it("are those of this very service, by the names of its offers", () => {
    offered(ALICE, OFFER);
    for (const name of ["s", "s:b", "s:w:0", "s:wb", "s:wb:0:x", "s2:wb:0", "t:s:wb:0"])
      offered(BOB, name);
  });

  it("have the name of no array, which is no offer", () => {
    assert.ok("lease" in (made(ALICE, "layer:w1:0", hostArray) as object));
    offered(BOB, "layer:w2:0");
    assert.match(JSON.stringify(made(ALICE, "layer:w3:0", hostArray)), /belongs to user 2/);
    assert.match(
      JSON.stringify(made(ALICE, OFFER, hostArray, { workers: [BOB] })),
      /INVALID_MESSAGE.+it is no offer of a service/,
    );
  });

  it("do not matter to a copy that a bridge has made", () => {
    made(BOB, OFFER, replica);
    offered(ALICE, "s:wa2:0");
    const copy = made(BOB, "s:wb:0", replica);
    assert.ok("lease" in copy, JSON.stringify(copy));
  });

  it("are looked at again when an offer takes its name over", () => {
    const late = made(BOB, "s:wb:0", undefined, { replace: true });
    assert.ok("object" in late);
    offered(ALICE, OFFER);
    assert.equal(rig.failure(BOB, "publish", { object: late.object }), "PERMISSION_DENIED");
  });

  it("are those that the first offer named, whatever later ones say", () => {
    offered(ALICE, OFFER, BOB);
    offered(BOB, "s:wb:0", CARL);
    offered(ROOT, "s:wr:0", CARL);
    assert.deepEqual(made(CARL, "s:wc:0"), {
      code: "PERMISSION_DENIED",
      message:
        'Cannot create "s:wc:0": service "s" belongs to user 1, who has workers of it, and user ' +
        "3 asked. Only that user, the users that it named (2), root and the hub's user may be " +
        "its workers. Use another name.",
    });
    for (const name of [OFFER, "s:wb:0", "s:wr:0"])
      assert.deepEqual(workersOf(rig, name), [ALICE, BOB]);
  });

  it("are those that root's first offer named", () => {
    offered(ROOT, "s:wr:0", ALICE);
    offered(ALICE, OFFER);
    assert.match(JSON.stringify(made(BOB, "s:wb:0")), /belongs to user 0, .+ named \(1\), root/);
  });

  it("stay the same until the last offer and link is gone, whoever made it", () => {
    const first = offered(ALICE, OFFER, BOB);
    const last = offered(BOB, "s:wb:0");
    rig.result(ALICE, "release", { lease: first.lease });
    offered(ALICE, "s:wa2:0");
    assert.equal((made(CARL, "s:wc:0") as { code?: string }).code, "PERMISSION_DENIED");
    rig.core.processEnded(ALICE);
    rig.result(BOB, "release", { lease: last.lease });
    offered(CARL, "s:wc:0", ALICE);
    assert.deepEqual(workersOf(rig, "s:wc:0"), [CARL, ALICE]);
  });

  it("are the same in the next hub, also if the first offer is gone", () => {
    const late = made(ALICE, "s:wa2:0", undefined, { replace: true, workers: [CARL] });
    assert.ok("object" in late);
    const first = offered(ALICE, OFFER, BOB);
    offered(BOB, "s:wb:0", CARL);
    rig.result(ALICE, "publish", { object: late.object });
    rig.result(ALICE, "release", { lease: first.lease });
    rig = nextHub(rig);
    for (const name of ["s:wb:0", "s:wa2:0"]) assert.deepEqual(workersOf(rig, name), [ALICE, BOB]);
    rig.greeted(CARL, "worker", peerOf(CARL, { uid: CARL, gid: CARL }));
    assert.match(JSON.stringify(made(CARL, "s:wc:0")), /belongs to user 1, .+ named \(2\)/);
  });

  it("are named in an offer, and in nothing else", () => {
    for (const name of ["frame", "s", `${OFFER}:req`, "s:w:0"])
      assert.deepEqual(made(ALICE, name, undefined, { workers: [BOB] }), {
        code: "INVALID_MESSAGE",
        message: `Cannot create "${name}": it is no offer of a service`,
      });
    const copy = made(ALICE, OFFER, replica, { workers: [BOB] });
    assert.match(JSON.stringify(copy), /INVALID_MESSAGE/);
  });

  it("have their names to themselves, also among copies that a bridge has made", () => {
    offered(ALICE, OFFER);
    const taken = (user: number) => made(user, "s:wa1:1", replica);
    assert.deepEqual(taken(BOB), {
      code: "PERMISSION_DENIED",
      message: 'Cannot create "s:wa1:1": worker "a1" is of user 1, and user 2 asked',
    });
    assert.ok("lease" in taken(ALICE));
    assert.ok("lease" in (made(BOB, "s:wf:0", replica) as object));
    assert.match(JSON.stringify(made(CARL, "s:wf:1", replica)), /worker \\"f\\" is of user 2/);
    assert.match(JSON.stringify(made(CARL, "s:wf:1")), /PERMISSION_DENIED/);
  });

  it("alone read the requests of a client, whoever else may open them", () => {
    link(ALICE, CARL);
    for (const as of [READER, OBSERVER]) {
      assert.equal(rig.failure(BOB, "open", { name: REQUESTS, ...as }), "PERMISSION_DENIED");
      for (const user of [CARL, ROOT, HUB, ALICE].slice(as === READER ? 3 : 0))
        rig.result(user, "open", { name: REQUESTS, ...as });
    }
  });

  it("are the same for the requests of a client once the worker is gone, and its name is taken", () => {
    const { lease } = link(ALICE, CARL);
    rig.result(ALICE, "release", { lease });
    offered(BOB, OFFER);
    for (const as of [READER, OBSERVER]) {
      const { reply } = rig.ask(BOB, "open", { name: REQUESTS, ...as });
      assert.ok(!reply.ok);
      const { message } = reply.error;
      assert.match(message, /it has requests of user 3 for a worker of user 1, and user 2 asked$/);
    }
    const records = [...replay(rig.records).objects.values()].map(({ record }) => record);
    assert.deepEqual(records.find(({ name }) => name === REQUESTS)?.serviceUsers, [ALICE]);
  });
});

describe("the channels of a link", () => {
  it("are made by the client that reads the offer, and by no other process", () => {
    offerChannel(ALICE);
    const refused = {
      code: "PERMISSION_DENIED",
      message:
        `Cannot create "${REQUESTS}": its client is whoever reads "${OFFER}", and this process ` +
        "does not",
    };
    for (const user of [ALICE, BOB, ROOT, HUB])
      assert.deepEqual(made(user, REQUESTS, channelOf()), refused);
    const lease = claimed(CARL);
    assert.deepEqual(made(BOB, REQUESTS, hostArray), refused);
    rig.result(CARL, "release", { lease });
    assert.deepEqual(made(CARL, REQUESTS, channelOf()), refused);
    assert.deepEqual(made(CARL, "s:wnone:0:req", channelOf()), {
      code: "PERMISSION_DENIED",
      message:
        'Cannot create "s:wnone:0:req": its client is whoever reads "s:wnone:0", and this ' +
        "process does not",
    });
  });

  it("are of one client only, because one that has left still has the memory", () => {
    offerChannel(ALICE);
    rig.result(BOB, "release", { lease: claimed(BOB) });
    for (const user of [CARL, BOB, ROOT]) {
      const { reply } = rig.ask(user, "open", { name: OFFER, ...READER });
      assert.match(JSON.stringify(reply), /READERS_FULL.+another client has claimed it/);
    }
  });

  it("show their replies to nobody but the worker, the client, root and the hub's user", () => {
    offerChannel(ALICE);
    const code = (user: number) => {
      const { reply } = rig.ask(user, "open", { name: OFFER, ...OBSERVER });
      return reply.ok ? undefined : reply.error.code;
    };
    const codes = () => [ALICE, BOB, CARL, ROOT, HUB].map(code);
    const denied = "PERMISSION_DENIED";
    assert.deepEqual(codes(), [undefined, denied, denied, undefined, undefined]);
    rig.result(CARL, "open", { name: OFFER, ...READER });
    assert.deepEqual(codes(), [undefined, denied, undefined, undefined, undefined]);
  });

  it("are not waited for once the client has left without making its own", () => {
    offerChannel(ALICE);
    rig.result(CARL, "release", { lease: claimed(CARL) });
    const { reply } = rig.ask(ALICE, "open", { name: REQUESTS, ...READER, wait: true });
    assert.match(JSON.stringify(reply), /NOT_FOUND.+the client that claimed the offer has left/);
  });

  it("are given up at once when the client leaves before it has made its own", () => {
    for (const left of ["offer", "both", "unpublished"] as const) {
      rig = new CoreRig(SERVING_ALL);
      greet();
      offerChannel(ALICE);
      const wait = { name: REQUESTS, ...READER, wait: true } as const;
      const waiting = rig.send(ALICE, "open", wait);
      const lease = claimed(CARL);
      assert.deepEqual(rig.answersTo(ALICE, waiting), []);
      if (left !== "offer") made(CARL, REQUESTS, channelOf());
      if (left === "both") rig.core.processEnded(CARL);
      else rig.result(CARL, "release", { lease });
      if (left === "unpublished") rig.core.processEnded(CARL);
      const [answer] = rig.answersTo(ALICE, waiting);
      assert.deepEqual(answer?.reply.ok === false && answer.reply.error, {
        code: "NOT_FOUND",
        message: `Cannot open "${REQUESTS}": the client that claimed the offer has left`,
      });
    }
  });
});
