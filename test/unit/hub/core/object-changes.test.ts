import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { limits } from "../../../../src/base/limits.js";
import { privatePolicy } from "../../../../src/hub/limits/policy.js";
import type { HeldObject, ResultOf } from "../../../../src/wire/messages.js";
import { CoreRig, HUB_UID, peerOf } from "../../../support/core-rig.js";
import { hostArray } from "../../../support/messages.js";
import { create, published, READ } from "./core-requests.js";

type Changes = ResultOf<"changes">;

function changes(rig: CoreRig, client: number, since?: number): Changes {
  return rig.result(client, "changes", since === undefined ? {} : { since }) as unknown as Changes;
}

/** A rig with a client that watches, and the position where it begins. */
function watched(): { readonly rig: CoreRig; readonly begin: number } {
  const rig = new CoreRig();
  rig.greeted(1);
  rig.greeted(2);
  const { next, reset, objects } = changes(rig, 2);
  assert.deepEqual([reset, objects], [true, []]);
  return { rig, begin: next };
}

const facts = ({ name, published, leases, ownerPid, holders }: HeldObject) => ({
  name,
  published,
  leases,
  ownerPid,
  holders: holders?.map(({ pid, access }) => [pid, access]),
});

describe("changes", () => {
  it("tells each object that changed once, as it is now", () => {
    const { rig, begin } = watched();
    published(rig, 1, "a");
    published(rig, 1, "b");
    rig.result(2, "open", { name: "a", ...READ });
    const { objects, ended, more, reset, next } = changes(rig, 2, begin);
    assert.deepEqual([ended, more, reset], [[], false, false]);
    assert.deepEqual(objects.map(facts), [
      { name: "b", published: true, leases: 1, ownerPid: 1001, holders: [[1001, "owner"]] },
      {
        name: "a",
        published: true,
        leases: 2,
        ownerPid: 1001,
        holders: [
          [1001, "owner"],
          [1002, "read"],
        ],
      },
    ]);
    assert.deepEqual(changes(rig, 2, next), { ...changes(rig, 2, next), objects: [], ended: [] });
  });

  it("tells the numbers of objects that lost their names", () => {
    const { rig } = watched();
    published(rig, 1, "a", "pinned");
    const { object } = rig.result(2, "open", { name: "a", ...READ });
    const { next } = changes(rig, 2);
    rig.result(1, "remove", { name: "a" });
    const found = changes(rig, 2, next);
    assert.deepEqual([found.objects, found.ended], [[], [object]]);
  });

  it("tells that a holder died", () => {
    const { rig } = watched();
    published(rig, 1, "a", "pinned");
    const { next } = changes(rig, 2);
    rig.core.processEnded(1);
    assert.deepEqual(
      changes(rig, 2, next).objects.map(({ ownerPid, leases, holders }) => [
        ownerPid,
        leases,
        holders,
      ]),
      [[null, 0, []]],
    );
  });

  it("asks for a new list if too much has changed since, or the position is another hub's", () => {
    const { rig, begin } = watched();
    published(rig, 1, "a");
    for (let round = 0; round < limits.hubChangesKeptMax / 2; round += 1) {
      const { lease } = rig.result(2, "open", { name: "a", ...READ }) as { lease: number };
      rig.result(2, "release", { lease });
    }
    const { reset, next, more } = changes(rig, 2, begin);
    assert.deepEqual([reset, more], [true, false]);
    assert.equal(changes(rig, 2, next).reset, false);
    assert.equal(changes(rig, 2, next + 1).reset, true);
  });

  it("looks at a limited number of changes at a time", () => {
    const { rig, begin } = watched();
    published(rig, 1, "a");
    for (let round = 0; round < limits.changesPerPageMax; round += 1) {
      const { lease } = rig.result(2, "open", { name: "a", ...READ }) as { lease: number };
      rig.result(2, "release", { lease });
    }
    const pages: Changes[] = [];
    for (let page = changes(rig, 2, begin); ; page = changes(rig, 2, page.next)) {
      pages.push(page);
      if (!page.more) break;
    }
    assert.equal(pages.length, 3);
    assert.equal(pages.flatMap(({ objects }) => objects).length, 1);
  });

  it("fills no more than a message, and goes on where it stopped", () => {
    const { rig, begin } = watched();
    for (let index = 0; index < 500; index += 1) create(rig, 1, `object-${index}`);
    const names = new Set<string>();
    let pages = 0;
    for (let since = begin, more = true; more; pages += 1) {
      const page = changes(rig, 2, since);
      for (const { name } of page.objects) names.add(name);
      [since, more] = [page.next, page.more];
    }
    assert.equal(names.size, 500);
    assert.ok(pages > 2);
  });

  it("tells a user only of objects that he could open, their ends included", () => {
    const rig = new CoreRig({ ...privatePolicy(HUB_UID), users: "all" });
    rig.greeted(1);
    rig.greeted(2, "other", peerOf(2000, { uid: 7, gid: 7 }));
    const { next } = changes(rig, 2);
    const make = (name: string, all: boolean) =>
      rig.result(
        1,
        "create",
        {
          name,
          lifetime: "pinned",
          descriptor: hostArray,
          sharing: { with: all ? "all" : "private", access: "read" },
        },
        [rig.fd()],
      );
    make("secret", false);
    const { object } = make("open", true);
    assert.deepEqual(
      changes(rig, 2, next).objects.map(({ name }) => name),
      ["open"],
    );
    for (const name of ["secret", "open"]) rig.result(1, "remove", { name });
    assert.deepEqual(changes(rig, 2, next).ended, [object]);
  });
});

describe("list with holders", () => {
  it("has the holders of each object, with the time since when they hold it", () => {
    const rig = new CoreRig();
    rig.greeted(1, "producer");
    rig.greeted(2, "consumer");
    published(rig, 1, "a");
    rig.result(2, "open", { name: "a", ...READ });
    const listed = (fields: object) =>
      (rig.result(1, "list", fields) as unknown as ResultOf<"list">).objects[0] as HeldObject;
    assert.equal(listed({}).holders, undefined);
    const { createdAtMs, holders = [] } = listed({ holders: true });
    assert.deepEqual(
      holders.map(({ pid, program, access }) => [pid, program, access]),
      [
        [1001, "producer", "owner"],
        [1002, "consumer", "read"],
      ],
    );
    const [first, second] = holders;
    assert.equal(first?.sinceMs, createdAtMs);
    assert.ok(Number(second?.sinceMs) > createdAtMs);
    assert.deepEqual(rig.result(1, "inspect", { name: "a" }).holders, holders);
  });

  it("leaves out holders rather than the object, and its count of leases has all", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    published(rig, 1, "a");
    for (let id = 2; id <= 500; id += 1) {
      rig.greeted(id, "\u0001".repeat(128));
      rig.result(id, "open", { name: "a", ...READ });
    }
    const page = rig.result(1, "list", { holders: true }) as unknown as ResultOf<"list">;
    const [object] = page.objects;
    assert.equal(object?.leases, 500);
    assert.ok(Number(object?.holders?.length) > 10 && Number(object?.holders?.length) < 100);
  });
});

describe("an object without leases", () => {
  it("has the time when the last one ended, and null as soon as somebody holds it", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const { lease } = published(rig, 1, "a", "pinned");
    const now = () => (rig.result(1, "list", {}) as unknown as ResultOf<"list">).objects[0];
    assert.equal(now()?.unheldSinceMs, null);
    rig.result(1, "release", { lease });
    const { unheldSinceMs, createdAtMs = 0 } = now() ?? {};
    assert.ok(Number(unheldSinceMs) > createdAtMs);
    rig.result(1, "open", { name: "a", ...READ });
    assert.equal(now()?.unheldSinceMs, null);
  });

  it("is removed on the condition that nobody has used it since", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const { lease } = published(rig, 1, "a", "pinned");
    rig.result(1, "release", { lease });
    const [object] = (rig.result(1, "list", {}) as unknown as ResultOf<"list">).objects;
    const unheldSinceMs = Number(object?.unheldSinceMs);
    const opened = rig.result(1, "open", { name: "a", ...READ });
    assert.equal(rig.failure(1, "remove", { name: "a", unheldSinceMs }), "IN_USE");
    rig.result(1, "release", { lease: Number(opened.lease) });
    assert.equal(rig.failure(1, "remove", { name: "a", unheldSinceMs }), "IN_USE");
    const [later] = (rig.result(1, "list", {}) as unknown as ResultOf<"list">).objects;
    rig.result(1, "remove", { name: "a", unheldSinceMs: Number(later?.unheldSinceMs) });
  });
});

describe("an object that is removed by its number", () => {
  it("is removed only while it has the name", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const earlier = published(rig, 1, "a", "pinned").object;
    rig.result(1, "remove", { name: "a", object: earlier });
    const { object } = published(rig, 1, "a", "pinned");
    assert.equal(rig.failure(1, "remove", { name: "a", object: earlier }), "STALE_HANDLE");
    rig.result(1, "remove", { name: "a", object });
    assert.equal(rig.failure(1, "remove", { name: "a", object }), "NOT_FOUND");
  });
});

describe("clients", () => {
  it("has each session with its process, its program and what it holds", () => {
    const rig = new CoreRig();
    rig.greeted(1, "producer");
    rig.greeted(2, "consumer");
    published(rig, 1, "a");
    rig.send(2, "open", { name: "absent", ...READ });
    const { clients, next } = rig.result(2, "clients", {}) as unknown as ResultOf<"clients">;
    assert.equal(next, null);
    assert.deepEqual(
      clients.map(({ session: _, ...rest }) => rest),
      [
        {
          pid: 1001,
          uid: HUB_UID,
          program: "producer",
          connected: true,
          leases: 1,
          waitingOpens: 0,
          hostBytes: 4096,
          deviceBytes: 0,
        },
        {
          pid: 1002,
          uid: HUB_UID,
          program: "consumer",
          connected: true,
          leases: 0,
          waitingOpens: 1,
          hostBytes: 0,
          deviceBytes: 0,
        },
      ],
    );
    rig.core.hungUp(1);
    const [producer] = (rig.result(2, "clients", {}) as unknown as ResultOf<"clients">).clients;
    assert.deepEqual([producer?.connected, producer?.leases], [false, 1]);
  });

  it("comes in pages, in order of the sessions", () => {
    const rig = new CoreRig();
    for (let id = 1; id <= 300; id += 1) rig.greeted(id, "\u0001".repeat(128));
    const found: number[] = [];
    let pages = 0;
    for (let after: number | null | undefined; after !== null; pages += 1) {
      const fields = after === undefined ? {} : { after };
      const page = rig.result(1, "clients", fields) as unknown as ResultOf<"clients">;
      found.push(...page.clients.map(({ session }) => session));
      after = page.next;
    }
    assert.equal(found.length, 300);
    assert.deepEqual(
      found,
      [...found].sort((a, b) => a - b),
    );
    assert.ok(pages > 2);
  });

  it("shows all clients to the hub's user and to root, and his own to any other user", () => {
    const rig = new CoreRig({ ...privatePolicy(HUB_UID), users: "all" });
    rig.greeted(1);
    rig.greeted(2, "alice", peerOf(2000, { uid: 7, gid: 7 }));
    rig.greeted(3, "root", peerOf(3000, { uid: 0, gid: 0 }));
    const seen = (client: number) =>
      (rig.result(client, "clients", {}) as unknown as ResultOf<"clients">).clients.map(
        ({ uid }) => uid,
      );
    assert.deepEqual([seen(1), seen(2), seen(3)], [[HUB_UID, 7, 0], [7], [HUB_UID, 7, 0]]);
  });
});

describe("changes that are waited for", () => {
  const ask = (rig: CoreRig, since: number) => rig.send(2, "changes", { since, wait: true });
  const told = (rig: CoreRig, asked: number) =>
    rig.answersTo(2, asked).map(({ reply }) => reply.ok && reply.result);
  const toAskAgain = (next: number) => [{ objects: [], ended: [], next, more: true, reset: false }];

  it("are told when there is one, and at once if there is one already", () => {
    const { rig, begin } = watched();
    const asked = ask(rig, begin);
    assert.deepEqual(rig.codes(2, asked), []);
    published(rig, 1, "a");
    assert.deepEqual(told(rig, asked), toAskAgain(begin));
    const { next, objects } = rig.result(2, "changes", { since: begin, wait: true });
    assert.equal((objects as unknown[]).length, 1);
    const again = ask(rig, next as number);
    assert.deepEqual(rig.codes(2, again), []);
    rig.core.processEnded(1);
    assert.deepEqual(told(rig, again), toAskAgain(next as number));
  });

  it("are not told of objects that the user may not open", () => {
    const rig = new CoreRig({ ...privatePolicy(HUB_UID), users: "all" });
    rig.greeted(1);
    rig.greeted(2, "other", peerOf(2000, { uid: 7, gid: 7 }));
    const asked = ask(rig, changes(rig, 2).next);
    published(rig, 1, "secret");
    rig.result(1, "remove", { name: "secret" });
    assert.deepEqual(rig.codes(2, asked), []);
  });

  it("are waited for by one request of a session, and by none after bye", () => {
    const { rig, begin } = watched();
    const first = ask(rig, begin);
    const second = ask(rig, begin);
    assert.deepEqual(told(rig, first), toAskAgain(begin));
    assert.deepEqual(rig.codes(2, second), []);
    rig.send(2, "bye", {});
    published(rig, 1, "a");
    assert.deepEqual(rig.codes(2, second), []);
  });

  it("are told at once if the hub does not know what changed", () => {
    const { rig } = watched();
    const { reset } = rig.result(2, "changes", { since: 10 ** 6, wait: true });
    assert.equal(reset, true);
  });
});
