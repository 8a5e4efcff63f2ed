/** Services in the hub's core: which users may be workers, and who may read a client's requests. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import type { Descriptor } from "../../../../src/wire/descriptor.js";
import type { Replace } from "../../../../src/wire/messages.js";
import { CoreRig, peerOf } from "../../../support/core-rig.js";
import { channelOf, hostArray, replica } from "../../../support/messages.js";
import { OBSERVER, READER, SERVING_ALL } from "./channel-rig.js";

const [ALICE, BOB, CARL, ROOT, HUB] = [1, 2, 3, 4, 5];
const OFFER = "s:wa1:0";

describe("the users of a service", () => {
  let rig: CoreRig;
  beforeEach(() => {
    rig = new CoreRig(SERVING_ALL);
    for (const [connection, uid] of [ALICE, BOB, CARL, 0, 500].entries())
      rig.greeted(connection + 1, "worker", peerOf(connection + 1, { uid, gid: uid }));
  });

  function made(user: number, name: string, descriptor: Descriptor = hostArray, replace?: Replace) {
    const sharing = { with: "all", access: "read" } as const;
    const taken = replace === undefined ? {} : { replace };
    const fields = { name, lifetime: "held", descriptor, sharing, ...taken } as const;
    const { content } = descriptor;
    const fds = content.kind === "channel" ? rig.channelFds(content) : [rig.fd()];
    const { reply } = rig.ask(user, "create", fields, fds);
    if (!reply.ok) return reply.error;
    return reply.result as { readonly object: number; readonly lease: number };
  }

  function offered(user: number, name: string): { object: number; lease: number } {
    const found = made(user, name);
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
    const late = made(BOB, "s:wb:0", hostArray, true);
    assert.ok("object" in late);
    offered(ALICE, OFFER);
    assert.equal(rig.failure(BOB, "publish", { object: late.object }), "PERMISSION_DENIED");
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
