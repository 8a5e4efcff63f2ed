import assert from "node:assert/strict";
import { describe, it } from "node:test";
import type { WaitOptions } from "../../../../src/base/deadline.js";
import { hasCode } from "../../../../src/base/errors.js";
import type { Hub } from "../../../../src/client/hub.js";
import type { SharedArray } from "../../../../src/client/objects/shared-array.js";
import { Device } from "../../../../src/gpu/device.js";
import { endTimelineOfDead } from "../../../../src/gpu/order/dead-timeline.js";
import { createMemoryFile, reopenReadOnly } from "../../../../src/os/memory-file.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { join, linkRig, reconnected } from "../../../support/link-rig.js";
import { hostArray } from "../../../support/messages.js";
import { type HeardRequest, obliging, type Script } from "../../../support/scripted-hub.js";
import { soon, until } from "../../../support/until.js";

const code = (wanted: Parameters<typeof hasCode>[1]) => (error: unknown) => hasCode(error, wanted);
const ITEM = { dtype: "uint8", shape: [4] } as const;

describe("a link whose connection is cut", () => {
  checkLeaks();

  it("resumes its session, restores all leases with their memory, then says so", async () => {
    using r = linkRig();
    await using hub = await join(r);
    using one = await hub.create("one", ITEM);
    using bundle = await hub.createBundle("two", { a: ITEM });
    using timeline = await hub.createTimeline("three");
    const back = reconnected(hub);
    const first = r.scripted.latest;
    first.hangUp();
    assert.deepEqual(await back, { resumed: true });
    const { ops, heard } = r.scripted.latest;
    assert.notEqual(r.scripted.latest, first);
    assert.deepEqual(ops, ["hello", "restore", "restore", "restore", "restored"]);
    assert.deepEqual(heard[0]?.resume, { session: 101 });
    assert.deepEqual(
      heard.slice(1, 4).map(({ fds }) => fds),
      [1, 2, 1],
      "the memory, and the index of the bundle",
    );
    assert.ok(one.name === "one" && bundle.size === 1 && timeline.open);
  });

  it("sends the memory of an object once, with the lease that has the most rights", async () => {
    using memory = createMemoryFile("test", 4096);
    using readOnly = reopenReadOnly(memory);
    const open: Script = ({ access }, { heard }) => ({
      result: { object: 7, lease: 1000 + heard.length, descriptor: hostArray },
      fds: [access === "read" ? readOnly : memory],
    });
    using r = linkRig(obliging({ open }));
    await using hub = await join(r);
    using reader = await hub.open("frame");
    using writer = await hub.open("frame", { access: "read-write" });
    using again = await hub.open("frame");
    const back = reconnected(hub);
    r.scripted.latest.hangUp();
    await back;
    const restores = r.scripted.latest.heard.filter(({ op }) => op === "restore");
    assert.deepEqual(
      restores.map(({ lease, fds }) => [lease, fds]),
      [
        [1003, 1],
        [1002, 0],
        [1004, 0],
      ],
    );
    assert.deepEqual([reader.object, writer.object, again.object], [7, 7, 7]);
  });

  it("restores no closed lease, and releases one that is closed while it is restored", async () => {
    let answerRestores = false;
    using r = linkRig(obliging({ restore: () => (answerRestores ? {} : undefined) }));
    await using hub = await join(r);
    using kept = await hub.create("kept", ITEM);
    const closedAway = await hub.create("away", ITEM);
    const closedLate = await hub.create("late", ITEM);
    r.scripted.latest.hangUp();
    closedAway.close();
    await until(
      "both restores arrive",
      () => r.scripted.latest.ops.filter((op) => op === "restore").length === 2,
    );
    const back = reconnected(hub);
    closedLate.close();
    const release = await r.scripted.heard("release");
    const { heard } = r.scripted.latest;
    const lateAt = heard.findIndex(({ op, lease }) => op === "restore" && lease === release.lease);
    assert.ok(lateAt > 0 && lateAt < heard.indexOf(release), "restored first, then released");
    answerRestores = true;
    for (const { op, id } of heard) if (op === "restore") r.scripted.latest.reply(id, {});
    await back;
    assert.deepEqual(r.scripted.latest.ops, ["hello", "restore", "restore", "release", "restored"]);
    assert.ok(kept.name);
  });

  it("does not restore a lease that is released before its turn", async () => {
    const waiting: HeardRequest[] = [];
    const restore: Script = (request) => {
      waiting.push(request);
      return undefined;
    };
    using r = linkRig(obliging({ restore }));
    await using hub = await join(r);
    const arrays: SharedArray[] = [];
    for (let index = 0; index < 40; index += 1) arrays.push(await hub.create(`n${index}`, ITEM));
    const back = reconnected(hub);
    r.scripted.latest.hangUp();
    await until("many restores arrive", () => waiting.length === 32);
    arrays.pop()?.close();
    const { lease } = await r.scripted.heard("release");
    assert.ok(!waiting.some((request) => request.lease === lease));
    for (const { id } of waiting) r.scripted.latest.reply(id, {});
    r.scripted.script = obliging();
    await back;
    const named = r.scripted.latest.heard.filter(({ op }) => op === "restore");
    assert.deepEqual([named.length, named.some((request) => request.lease === lease)], [39, false]);
  });

  it("then repeats pending requests in order, and sends those made meanwhile", async () => {
    let obliges = false;
    const wait: Script = () => (obliges ? {} : undefined);
    using r = linkRig(
      obliging({ publish: wait, remove: wait, restored: () => (obliges ? {} : undefined) }),
    );
    await using hub = await join(r);
    using array = await hub.create("one", ITEM);
    const [published, removed] = [array.publish(), hub.remove("other")];
    await r.scripted.heard("remove");
    r.scripted.latest.hangUp();
    const listed = hub.list();
    const { id } = await r.scripted.heard("restored", 2);
    assert.deepEqual(
      r.scripted.latest.ops,
      ["hello", "restore", "restored"],
      "nothing is asked before",
    );
    obliges = true;
    r.scripted.latest.reply(id, {});
    await soon("all is answered", Promise.all([published, removed, listed]));
    assert.deepEqual(r.scripted.latest.ops.slice(3), ["publish", "remove", "list"]);
  });

  it("treats NOT_FOUND as success of a repeated removal, and only of that", async () => {
    let cuts = 1;
    const remove: Script = () => (cuts-- > 0 ? "hang up" : { code: "NOT_FOUND" });
    using r = linkRig(obliging({ remove }));
    await using hub = await join(r);
    await hub.remove("frame");
    await assert.rejects(hub.remove("frame"), code("NOT_FOUND"));
  });

  it("treats STALE_HANDLE as success of a repeated removal of one object, and only of that", async () => {
    let cuts = 1;
    const remove: Script = () => (cuts-- > 0 ? "hang up" : { code: "STALE_HANDLE" });
    using r = linkRig(obliging({ remove }));
    await using hub = await join(r);
    await hub.remove("frame", { object: 7 });
    await assert.rejects(hub.remove("frame", { object: 7 }), code("STALE_HANDLE"));
  });

  it("creates a timeline again that the hub has ended because the reply was lost", async () => {
    let creations = 0;
    const create: Script = () => {
      creations += 1;
      return creations === 1 ? undefined : { object: 500 + creations, lease: 600 + creations };
    };
    using r = linkRig(obliging({ create }));
    await using hub = await join(r);
    const creating = hub.createTimeline("steps");
    const { id, descriptor } = await r.scripted.heard("create");
    assert.ok(id > 0);
    const { byteOffset } = (descriptor as { content: { byteOffset: number } }).content;
    const [memory] = r.scripted.latest.fds;
    assert.ok(memory !== undefined);
    endTimelineOfDead(memory, { byteOffset });
    r.scripted.latest.hangUp();
    using timeline = await creating;
    timeline.signal(1);
    assert.deepEqual([timeline.value, creations], [1n, 3]);
  });

  it("does not repeat a stop", async () => {
    using r = linkRig(obliging({ stop: () => "hang up" }));
    await using hub = await join(r);
    await assert.rejects(hub.stop(), code("HUB_GONE"));
    await hub.list();
    assert.deepEqual(r.scripted.latest.ops, ["hello", "restored", "list"]);
  });

  it("forgets a request that is aborted meanwhile, and does not send it again", async () => {
    let greets = true;
    const hello: Script = (request) =>
      greets ? obliging()(request, r.scripted.latest) : undefined;
    using r = linkRig(obliging({ hello, open: () => undefined }));
    await using hub = await join(r);
    const controller = new AbortController();
    const [before, late] = [
      hub.open("before", { signal: controller.signal }),
      hub.open("late", { timeoutMs: 200 }),
    ];
    await until("both are asked", () => r.scripted.latest.ops.length >= 3);
    greets = false;
    r.scripted.latest.hangUp();
    const { id } = await r.scripted.heard("hello", 2);
    const meanwhile = hub.open("meanwhile", { signal: controller.signal });
    controller.abort();
    await assert.rejects(before, code("ABORTED"));
    await assert.rejects(meanwhile, code("ABORTED"));
    await assert.rejects(late, code("TIMEOUT"));
    const back = reconnected(hub);
    r.scripted.latest.reply(id, { version: "0", instance: "x", pid: 1, session: 1, resumed: true });
    await back;
    await hub.list();
    assert.deepEqual(r.scripted.latest.ops, ["hello", "restored", "list"]);
  });
});

describe("a client whose hub has lost leases", () => {
  checkLeaks();
  const lost = (error: unknown) =>
    hasCode(error, "HUB_GONE") && /"one": the hub lost it/.test(error.message);

  it("fails pending requests if its session is unknown, and can create new objects", async () => {
    const hello: Script = () => ({
      version: "0",
      instance: "x",
      pid: 1,
      session: r.scripted.connections.length,
      resumed: false,
    });
    using r = linkRig(
      obliging({ hello, publish: () => (r.scripted.connections.length === 1 ? undefined : {}) }),
    );
    await using hub = await join(r);
    const one = await hub.create("one", ITEM);
    const publishing = one.publish();
    await r.scripted.heard("publish");
    const back = reconnected(hub);
    r.scripted.latest.hangUp();
    await assert.rejects(publishing, lost);
    assert.deepEqual(await back, { resumed: false });
    await assert.rejects(one.publish(), lost);
    assert.deepEqual([...(await one.read())], [0, 0, 0, 0]);
    one.close();
    using two = await hub.create("two", ITEM);
    await two.publish();
    assert.deepEqual(r.scripted.latest.ops, ["hello", "create", "publish"]);
  });

  it("loses only the lease that the hub does not know", async () => {
    const restore: Script = ({ lease }) => (lease === 102 ? { code: "NOT_FOUND" } : {});
    using r = linkRig(obliging({ restore }));
    await using hub = await join(r);
    using one = await hub.create("one", ITEM);
    using two = await hub.create("two", ITEM);
    const back = reconnected(hub);
    r.scripted.latest.hangUp();
    assert.deepEqual(await back, { resumed: false });
    await assert.rejects(one.publish(), lost);
    await two.publish();
  });

  it("keeps a lease whose memory the hub refuses", async () => {
    using r = linkRig(
      obliging({ restore: ({ fds }) => (fds > 0 ? { code: "PERMISSION_DENIED" } : {}) }),
    );
    await using hub = await join(r);
    using one = await hub.create("one", ITEM);
    const back = reconnected(hub);
    r.scripted.latest.hangUp();
    assert.deepEqual(await back, { resumed: true });
    await one.publish();
    assert.deepEqual(r.scripted.latest.ops, ["hello", "restore", "restore", "restored", "publish"]);
  });

  it("restores a lease again after a refusal for too many messages", async () => {
    let refusals = 3;
    using r = linkRig(
      obliging({ restore: () => (refusals-- > 0 ? { code: "LIMIT_EXCEEDED" } : {}) }),
    );
    await using hub = await join(r);
    using one = await hub.create("one", ITEM);
    const back = reconnected(hub);
    r.scripted.latest.hangUp();
    assert.deepEqual(await back, { resumed: true });
    await one.publish();
  });
});

describe("a hub that was closed", () => {
  checkLeaks();

  it("opens no device for an object that replaces another", async (t) => {
    using r = linkRig();
    const hub = await join(r);
    await hub.close();
    const open = t.mock.method(Device, "open");
    const values = Uint8Array.of(1);
    await assert.rejects(hub.put("late", values, { replace: true }), code("CLOSED"));
    assert.equal(open.mock.callCount(), 0);
  });
});

describe("a create of several requests", () => {
  checkLeaks();
  const late: Script = ({ id }, connection) => {
    setTimeout(() => connection.reply(id, { object: 7, lease: 8 }), 100);
    return undefined;
  };

  for (const [what, create] of [
    ["a channel", (hub, wait) => hub.createChannel("late", { ...ITEM, ...wait })],
    ["a timeline", (hub, wait) => hub.createTimeline("late", wait)],
  ] as readonly (readonly [string, (hub: Hub, wait: WaitOptions) => Promise<unknown>])[]) {
    it(`of ${what} keeps one limit`, async () => {
      using r = linkRig(obliging({ create: late, publish: () => undefined }));
      await using hub = await join(r);
      let timeoutMs = 100;
      await until("the limit comes after the first request", async () => {
        timeoutMs *= 2;
        await assert.rejects(create(hub, { timeoutMs }), {
          code: "TIMEOUT",
          message: new RegExp(`^Cannot create "late": not done within ${timeoutMs} ms`),
        });
        return r.scripted.latest.ops.includes("publish");
      });
    });
  }
});
