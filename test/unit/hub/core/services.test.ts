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

describe("the users of a service", () => {
  let rig: CoreRig;
  beforeEach(() => {
    rig = new CoreRig(SERVING_ALL);
    for (const [connection, uid] of [ALICE, BOB, CARL, 0, 500].entries())
      rig.greeted(connection + 1, "worker", peerOf(connection + 1, { uid, gid: uid }));
  });

  function made(
    user: number,
    name: string,
    descriptor: Descriptor = hostArray,
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
    const found = made(user, name, hostArray, workers.length > 0 ? { workers } : {});
    assert.ok("lease" in found, JSON.stringify(found));
    return found;
  }

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
    for (const name of [
      "s",
      "s:b",
      "s:w:0",
      "s:wb",
      "s:wb:0:x",
      "s2:wb:0",
      "t:s:wb:0",
      `${OFFER}:req`,
    ])
      offered(BOB, name);
  });

  it("do not matter to a copy that a bridge has made", () => {
    made(BOB, OFFER, replica);
    offered(ALICE, "s:wa2:0");
    const copy = made(BOB, "s:wb:0", replica);
    assert.ok("lease" in copy, JSON.stringify(copy));
  });

  it("are looked at again when an offer takes its name over", () => {
    const late = made(BOB, "s:wb:0", hostArray, { replace: true });
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
    const late = made(ALICE, "s:wa2:0", hostArray, { replace: true, workers: [CARL] });
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
      assert.deepEqual(made(ALICE, name, hostArray, { workers: [BOB] }), {
        code: "INVALID_MESSAGE",
        message: `Cannot create "${name}": it is no offer of a service`,
      });
    const copy = made(ALICE, OFFER, replica, { workers: [BOB] });
    assert.match(JSON.stringify(copy), /INVALID_MESSAGE/);
  });

  it("alone read the requests of a client, whoever else may open them", () => {
    offered(ALICE, OFFER);
    const name = `${OFFER}:req`;
    const requests = made(CARL, name, channelOf());
    assert.ok("object" in requests);
    rig.result(CARL, "publish", { object: requests.object });
    for (const as of [READER, OBSERVER]) {
      assert.equal(rig.failure(BOB, "open", { name, ...as }), "PERMISSION_DENIED");
      for (const user of [CARL, ROOT, HUB, ALICE].slice(as === READER ? 3 : 0))
        rig.result(user, "open", { name, ...as });
    }
  });

  it("have no requests to read once the worker is gone", () => {
    const { lease } = offered(ALICE, OFFER);
    const name = `${OFFER}:req`;
    const requests = made(CARL, name, channelOf());
    assert.ok("object" in requests);
    rig.result(CARL, "publish", { object: requests.object });
    rig.result(ALICE, "release", { lease });
    const { reply } = rig.ask(ALICE, "open", { name, ...READER });
    assert.match(JSON.stringify(reply), /has requests of user 3, whose worker is gone, and user 1/);
  });
});
