import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { privatePolicy } from "../../../../src/hub/limits/policy.js";
import { replay } from "../../../../src/hub/restart/hub-records.js";
import type { Replace, ResultOf } from "../../../../src/wire/messages.js";
import { CoreRig, HUB_UID, peerOf } from "../../../support/core-rig.js";
import { hostArray, timelineDescriptor } from "../../../support/messages.js";
import { create, names, published, READ, READ_NOW } from "./core-requests.js";

const SERVING_ALL = { ...privatePolicy(HUB_UID), users: "all" } as const;

function rigOf(...clients: number[]): CoreRig {
  const rig = new CoreRig(SERVING_ALL);
  for (const id of clients) rig.greeted(id, `program-${id}`);
  return rig;
}

const newArray = (replace: Replace) =>
  ({ name: "frame", lifetime: "held", descriptor: hostArray, replace }) as const;

/** Creates an object that has no name yet. */
function hidden(rig: CoreRig, client: number, replace: Replace = true): number {
  return rig.result(client, "create", newArray(replace), [rig.fd()]).object as number;
}

function refusal(rig: CoreRig, client: number, object: number): { code: string; message: string } {
  const { reply } = rig.ask(client, "publish", { object });
  assert.ok(!reply.ok);
  return reply.error;
}

describe("replace", () => {
  it("leaves the name with the old object until publish, which passes it on", () => {
    const rig = rigOf(1, 2, 3);
    const old = published(rig, 1, "frame", "pinned");
    const reader = rig.result(3, "open", { name: "frame", ...READ_NOW });
    const object = hidden(rig, 2);
    assert.equal(rig.result(3, "open", { name: "frame", ...READ_NOW }).object, old.object);
    assert.deepEqual(names(rig, 3), ["frame"]);
    rig.result(2, "publish", { object });
    assert.equal(rig.result(3, "open", { name: "frame", ...READ_NOW }).object, object);
    assert.deepEqual(names(rig, 3), ["frame"]);
    assert.equal(rig.core.objectCount, 2, "the old object stays for its holders");
    rig.result(3, "release", { lease: reader.lease as number });
    rig.result(1, "release", { lease: old.lease });
    const { leases } = rig.core.state();
    for (const { id, object: of } of leases.values())
      if (of === old.object) rig.result(3, "release", { lease: id });
    assert.equal(rig.core.objectCount, 1);
  });

  it("of a free name shows nothing until publish, and an open that waits is granted then", () => {
    const rig = rigOf(1, 2);
    const object = hidden(rig, 1);
    const open = rig.send(2, "open", { name: "frame", ...READ });
    assert.deepEqual([names(rig, 2), rig.codes(2, open)], [[], []]);
    rig.result(1, "publish", { object });
    assert.deepEqual([names(rig, 2), rig.codes(2, open)], [["frame"], ["ok"]]);
  });

  it("of two publishers never meets NAME_TAKEN, and the later one has the name", () => {
    const rig = rigOf(1, 2, 3);
    const [one, other] = [hidden(rig, 1), hidden(rig, 2)];
    rig.result(2, "publish", { object: other });
    rig.result(1, "publish", { object: one });
    assert.equal(rig.result(3, "open", { name: "frame", ...READ_NOW }).object, one);
    rig.result(2, "publish", { object: other });
    assert.equal(rig.result(3, "open", { name: "frame", ...READ_NOW }).object, one);
  });

  it("leaves the old object under the name if its creator ends before publish", () => {
    const rig = rigOf(1, 2, 3);
    const old = published(rig, 1, "frame", "pinned");
    hidden(rig, 2);
    rig.core.processEnded(2);
    assert.equal(rig.result(3, "open", { name: "frame", ...READ_NOW }).object, old.object);
    assert.equal(rig.core.objectCount, 1);
  });

  it("takes no name of another kind unless asked to", () => {
    const rig = rigOf(1, 2);
    const timeline = { name: "frame", lifetime: "held", descriptor: timelineDescriptor } as const;
    const { object: old } = rig.result(1, "create", timeline, [rig.fd()]);
    rig.result(1, "publish", { object: old as number });
    assert.equal(rig.failure(2, "create", newArray(true), [rig.fd()]), "WRONG_KIND");
    rig.result(2, "publish", { object: hidden(rig, 2, "any") });
    assert.deepEqual(names(rig, 1), ["frame"]);
  });

  it("checks the kind again at publish", () => {
    const rig = rigOf(1, 2);
    const object = hidden(rig, 2);
    const timeline = { name: "frame", lifetime: "held", descriptor: timelineDescriptor } as const;
    rig.result(1, "create", timeline, [rig.fd()]);
    const { code, message } = refusal(rig, 2, object);
    assert.equal(code, "WRONG_KIND");
    assert.match(message, /it is of kind timeline, the new object of kind array\. Remove it first/);
  });

  it("with a number takes the name of that object alone", () => {
    const rig = rigOf(1, 2);
    const { object: old } = published(rig, 1, "frame");
    assert.equal(rig.failure(2, "create", newArray(old + 1000), [rig.fd()]), "NAME_TAKEN");
    const [one, other] = [hidden(rig, 2, old), hidden(rig, 2, old)];
    rig.result(2, "publish", { object: one });
    assert.equal(rig.failure(2, "publish", { object: other }), "NAME_TAKEN");
  });

  it("is for the old object's user and root", () => {
    const rig = rigOf(1);
    published(rig, 1, "frame");
    rig.greeted(2, "root", peerOf(2, { uid: 0, gid: 0 }));
    rig.result(2, "publish", { object: hidden(rig, 2) });
    assert.equal(rig.failure(1, "create", newArray(true), [rig.fd()]), "PERMISSION_DENIED");
  });

  it("passes the name on by one record, so that no hub finds it free or at both", () => {
    const rig = rigOf(1, 2);
    const old = published(rig, 1, "frame", "pinned");
    const object = hidden(rig, 2);
    const before = rig.records.length;
    rig.result(2, "publish", { object });
    const added = rig.records.slice(before);
    assert.deepEqual(added[0], { t: "published", object, replaced: old.object });
    const named = (count: number) =>
      [...replay(rig.records.slice(0, count)).objects.values()]
        .filter((state) => state.named)
        .map(({ record }) => record.id);
    assert.deepEqual([named(before), named(before + 1)], [[old.object], [object]]);
  });
});

describe("publish", () => {
  it("throws if another object has taken the name over, and names its process", () => {
    const rig = rigOf(1, 2);
    const { object } = create(rig, 1, "frame");
    rig.result(2, "publish", { object: hidden(rig, 2) });
    const { code, message } = refusal(rig, 1, object);
    assert.equal(code, "NAME_TAKEN");
    assert.match(message, /Cannot publish "frame": an array of process 1002 \(program-2\)/);
  });

  it("throws if the name was removed", () => {
    const rig = rigOf(1, 2);
    const { object } = create(rig, 1, "frame");
    rig.result(2, "remove", { name: "frame" });
    const { code, message } = refusal(rig, 1, object);
    assert.equal(code, "NOT_FOUND");
    assert.match(message, /its name was removed meanwhile by process 1002 \(program-2\)$/);
  });

  it("names no program if another user removed the name", () => {
    const rig = rigOf(1);
    rig.greeted(2, "secret", peerOf(2, { uid: 0, gid: 0 }));
    const { object } = create(rig, 1, "frame");
    rig.result(2, "remove", { name: "frame" });
    assert.match(refusal(rig, 1, object).message, /its name was removed meanwhile by user 0$/);
  });
});

describe("NAME_TAKEN", () => {
  const taken = (rig: CoreRig, client: number): string => {
    const fields = { name: "frame", lifetime: "held", descriptor: hostArray } as const;
    const { reply } = rig.ask(client, "create", fields, [rig.fd()]);
    assert.ok(!reply.ok && reply.error.code === "NAME_TAKEN");
    return reply.error.message;
  };

  it("names the process that has the name, and the option replace", () => {
    const rig = rigOf(1, 2);
    create(rig, 1, "frame");
    assert.match(taken(rig, 2), /an array of process 1001 \(program-1\).*`replace`/);
  });

  it("says that the creator has closed it", () => {
    const rig = rigOf(1, 2);
    const { lease } = published(rig, 1, "frame", "pinned");
    rig.result(1, "release", { lease });
    assert.match(taken(rig, 2), /process 1001, which has released it/);
  });

  it("names no program to a user who may not open the object", () => {
    const rig = rigOf(1);
    rig.greeted(2, "secret", peerOf(2, { uid: 0, gid: 0 }));
    published(rig, 2, "frame");
    const message = taken(rig, 1);
    assert.match(message, /an array of another user, number \d+, has this name/);
  });
});

describe("list of objects without a name", () => {
  const nameless = (rig: CoreRig, client: number, fields: object = {}) =>
    rig.result(client, "list", { nameless: true, ...fields }) as unknown as ResultOf<"list">;
  const shown = ({ objects }: ResultOf<"list">) =>
    objects.map((it) => [it.object, it.name, it.published, it.leases, it.nameless]);
  const use = (rig: CoreRig) => rig.result(2, "status", {}).nameless;
  const bytesOf = (count: number) => ({
    objects: count,
    hostBytes: count * hostArray.allocationByteLength,
    deviceBytes: 0,
  });

  it("has what was replaced or removed and is still held, and what has no name yet", () => {
    const rig = rigOf(1, 2);
    assert.deepEqual([shown(nameless(rig, 1)), use(rig)], [[], bytesOf(0)]);
    const replaced = published(rig, 1, "frame");
    const object = hidden(rig, 1);
    assert.deepEqual(shown(nameless(rig, 1)), [[object, "frame", false, 1, true]]);
    rig.result(1, "publish", { object });
    assert.deepEqual(shown(nameless(rig, 1)), [[replaced.object, "frame", true, 1, true]]);
    const { lease } = rig.result(2, "open", { name: "frame", ...READ_NOW });
    rig.result(1, "remove", { name: "frame" });
    assert.deepEqual(shown(nameless(rig, 1)), [
      [replaced.object, "frame", true, 1, true],
      [object, "frame", true, 2, true],
    ]);
    assert.deepEqual([names(rig, 1), use(rig)], [[], bytesOf(2)]);
    const [, last] = nameless(rig, 1, { holders: true }).objects;
    assert.deepEqual(
      last?.holders?.map(({ program, access }) => [program, access]),
      [
        ["program-1", "owner"],
        ["program-2", "read"],
      ],
    );
    rig.core.processEnded(1);
    assert.deepEqual(shown(nameless(rig, 2)), [[object, "frame", true, 1, true]]);
    rig.result(2, "release", { lease: lease as number });
    assert.deepEqual([shown(nameless(rig, 2)), use(rig)], [[], bytesOf(0)]);
  });

  it("goes on after the last object of a page", () => {
    const rig = rigOf(1);
    for (let count = 0; count < 300; count += 1) hidden(rig, 1, "any");
    const found: number[] = [];
    let pages = 0;
    for (let after: string | null | undefined; after !== null; pages += 1) {
      const page = nameless(rig, 1, after === undefined ? {} : { after });
      found.push(...page.objects.map(({ object }) => object));
      after = page.next;
    }
    assert.equal(new Set(found).size, 300);
    assert.deepEqual(
      found,
      [...found].sort((one, other) => one - other),
    );
    assert.ok(pages > 1);
  });

  it("shows each user only objects that it could have opened", () => {
    const rig = rigOf(1);
    rig.greeted(2, "other", peerOf(2, { uid: HUB_UID + 1 }));
    const sharing = { with: "all", access: "read" } as const;
    const shared = rig.result(1, "create", { ...newArray(true), sharing }, [rig.fd()]);
    hidden(rig, 1);
    assert.equal(nameless(rig, 1).objects.length, 2);
    assert.deepEqual(
      nameless(rig, 2).objects.map(({ object }) => object),
      [shared.object],
    );
  });

  it("is the same after a restart of the hub", () => {
    const rig = rigOf(1, 2);
    const replaced = published(rig, 1, "frame");
    rig.result(1, "publish", { object: hidden(rig, 1) });
    const next = new CoreRig(SERVING_ALL, 1000);
    const state = replay(rig.records);
    const connections = [...state.sessions.values()].map((session, index) => {
      return { id: -1 - index, peer: session, session };
    });
    next.core.inherit({ state, connections, memory: new Map() });
    next.greeted(3);
    assert.deepEqual(shown(nameless(next, 3)), [[replaced.object, "frame", true, 1, true]]);
  });
});
