import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { limits } from "../../../src/base/limits.js";
import { privatePolicy } from "../../../src/hub/policy.js";
import { encodeMessage } from "../../../src/wire/codec.js";
import type { Descriptor } from "../../../src/wire/descriptor.js";
import type { Lifetime } from "../../../src/wire/messages.js";
import { CoreRig, HUB_UID, peerOf } from "../../support/core-rig.js";
import { gpuArray, hostArray, hostBundle, requests, timelineDescriptor } from "../../support/messages.js";

function create(rig: CoreRig, session: number, name: string, lifetime: Lifetime = "held", descriptor = hostArray) {
  const fds = descriptor.content.kind === "bundle" ? [rig.fd(), rig.fd({ byteLength: 200 })] : [rig.fd()];
  const result = rig.result(session, "create", { name, lifetime, descriptor }, fds);
  return { object: result.object as number, lease: result.lease as number, fds };
}

function published(rig: CoreRig, session: number, name: string, lifetime: Lifetime = "held", descriptor = hostArray) {
  const made = create(rig, session, name, lifetime, descriptor);
  rig.result(session, "publish", { object: made.object });
  return made;
}

function names(rig: CoreRig, session: number): string[] {
  return (rig.result(session, "list", {}).objects as { name: string }[]).map(({ name }) => name);
}

const READ = { access: "read", wait: true } as const;
const READ_NOW = { access: "read", wait: false } as const;

describe("a session", () => {
  for (const request of requests.filter(({ op }) => op !== "hello")) {
    it(`that begins with ${request.op} is refused and hung up on, and its descriptors are closed`, () => {
      const rig = new CoreRig();
      rig.core.connected(1, peerOf(1001));
      const fds = request.op === "create" ? [rig.fd()] : [];
      rig.core.packet(1, encodeMessage(request), fds);
      assert.deepEqual([rig.codes(1, request.id), rig.hungUp, rig.open.size], [["INVALID_MESSAGE"], [1], 0]);
      assert.equal(rig.core.objectCount, 0);
    });
  }

  it("that sends no message of the protocol is told so under the id that it gave, and hung up on", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.core.packet(1, Buffer.from('{"v":1,"id":77,"op":"nonsense"}'), [rig.fd()]);
    rig.core.packet(1, Buffer.from("not JSON"), []);
    assert.deepEqual([rig.codes(1, 77), rig.codes(1, 0)], [["INVALID_MESSAGE"], ["INVALID_MESSAGE"]]);
    assert.deepEqual([rig.hungUp, rig.open.size], [[1, 1], 0]);
  });

  it("of another version is told both versions", () => {
    const rig = new CoreRig();
    rig.core.connected(1, peerOf(1001));
    rig.core.packet(1, Buffer.from('{"v":9,"id":1,"op":"hello"}'), []);
    assert.deepEqual(rig.codes(1, 1), ["PROTOCOL_MISMATCH"]);
    assert.match(JSON.stringify(rig.answersTo(1, 1)), /version 9.*version 1/);
    assert.deepEqual(rig.hungUp, [1]);
  });

  it("that lost descriptors on the way is told, and goes on", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const bytes = Buffer.from('{"v":1,"id":5,"op":"create"}');
    rig.core.damagedPacket(1, bytes, new CudaIpcError("TOO_MANY_FDS", "lost"));
    assert.deepEqual([rig.codes(1, 5), rig.hungUp], [["TOO_MANY_FDS"], []]);
    rig.core.damagedPacket(1, bytes, new CudaIpcError("MESSAGE_TOO_LARGE", "cut"));
    assert.deepEqual(rig.hungUp, [1]);
  });

  it("that is not known keeps no descriptors", () => {
    const rig = new CoreRig();
    rig.core.packet(5, encodeMessage({ v: 1, id: 1, op: "status" }), [rig.fd(), rig.fd()]);
    assert.deepEqual([rig.open.size, rig.answered.length], [0, 0]);
  });

  it("ends at its hang-up where it holds nothing, and with its process where it does", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    create(rig, 2, "frame");
    rig.core.hungUp(1);
    rig.core.hungUp(2);
    assert.deepEqual([rig.core.hasConnection(1), rig.core.hasConnection(2), rig.core.objectCount], [false, true, 1]);
    rig.core.processEnded(2);
    assert.deepEqual([rig.core.connectionCount, rig.core.objectCount, rig.open.size], [0, 0, 0]);
  });

  it("gives everything back when it says goodbye, and is answered before the hang-up", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    create(rig, 1, "frame");
    rig.result(1, "bye", {});
    assert.deepEqual([rig.hungUp, rig.core.hasConnection(1), rig.open.size], [[1], false, 0]);
  });
});

describe("create", () => {
  const fits = { name: "frame", lifetime: "held" } as const;
  const refused: Record<string, [Descriptor, (rig: CoreRig) => number[], string]> = {
    "no descriptors": [hostArray, () => [], "INVALID_MESSAGE"],
    "a descriptor too many": [hostArray, (rig) => [rig.fd(), rig.fd()], "INVALID_MESSAGE"],
    "a bundle without its index": [hostBundle(1, 200), (rig) => [rig.fd()], "INVALID_MESSAGE"],
    "memory smaller than claimed": [hostArray, (rig) => [rig.fd({ byteLength: 4095 })], "INVALID_DESCRIPTOR"],
    "memory that can be resized": [hostArray, (rig) => [rig.fd({ sizeSealed: false })], "INVALID_DESCRIPTOR"],
    "an index shorter than claimed": [
      hostBundle(1, 200),
      (rig) => [rig.fd(), rig.fd({ byteLength: 199 })],
      "INVALID_DESCRIPTOR",
    ],
    "an index longer than claimed": [
      hostBundle(1, 200),
      (rig) => [rig.fd(), rig.fd({ byteLength: 201 })],
      "INVALID_DESCRIPTOR",
    ],
    "an index that can be changed": [
      hostBundle(1, 200),
      (rig) => [rig.fd(), rig.fd({ byteLength: 200, contentSealed: false })],
      "INVALID_DESCRIPTOR",
    ],
    "a contradiction": [{ ...hostArray, byteLength: 5000 }, (rig) => [rig.fd()], "INVALID_DESCRIPTOR"],
  };
  for (const [what, [descriptor, fds, code]] of Object.entries(refused)) {
    it(`refuses ${what} with ${code}, and closes what came`, () => {
      const rig = new CoreRig();
      rig.greeted(1);
      assert.equal(rig.failure(1, "create", { ...fits, descriptor }, fds(rig)), code);
      assert.deepEqual([rig.open.size, rig.core.objectCount, rig.hungUp], [0, 0, []]);
    });
  }

  it("refuses bad names and taken names, and closes what came", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    assert.equal(rig.failure(1, "create", { ...fits, name: "a/b", descriptor: hostArray }, [rig.fd()]), "INVALID_NAME");
    create(rig, 1, "frame");
    assert.equal(rig.failure(1, "create", { ...fits, descriptor: hostArray }, [rig.fd()]), "NAME_TAKEN");
    assert.equal(rig.open.size, 1);
  });

  it("takes GPU memory unseen, since its size is the driver's secret", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const fd = rig.fd({ byteLength: 0, sizeSealed: false });
    rig.result(1, "create", { ...fits, descriptor: gpuArray }, [fd]);
    assert.ok(rig.open.has(fd));
  });

  it("is invisible to open until it is published", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    const { object } = create(rig, 1, "frame");
    assert.equal(rig.failure(2, "open", { name: "frame", ...READ_NOW }), "NOT_FOUND");
    rig.result(1, "publish", { object });
    rig.result(2, "open", { name: "frame", ...READ_NOW });
  });

  it("ends with its owner before it is published, pinned or not", () => {
    for (const lifetime of ["held", "pinned"] as const) {
      const rig = new CoreRig();
      rig.greeted(1);
      rig.greeted(2);
      create(rig, 1, "frame", lifetime);
      rig.core.processEnded(1);
      assert.deepEqual([names(rig, 2), rig.open.size], [[], 0]);
      create(rig, 2, "frame", lifetime);
    }
  });
});

describe("publish", () => {
  it("is for the one who created the object, and as good twice as once", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    const { object } = create(rig, 1, "frame");
    assert.equal(rig.failure(2, "publish", { object }), "NOT_OWNER");
    assert.equal(rig.failure(2, "open", { name: "frame", ...READ_NOW }), "NOT_FOUND");
    rig.result(1, "publish", { object });
    rig.result(1, "publish", { object });
    assert.equal(rig.failure(1, "publish", { object: 999 }), "NOT_FOUND");
  });

  it("is for nobody once the owner's lease has ended", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const { object, lease } = published(rig, 1, "frame", "pinned");
    rig.result(1, "release", { lease });
    assert.equal(rig.failure(1, "publish", { object }), "NOT_OWNER");
  });

  it("answers the opens that waited, each once, the publisher first and then each client in the order in which they came", () => {
    const rig = new CoreRig();
    for (const id of [1, 2, 3]) rig.greeted(id);
    const waits = [3, 3, 2].map((session) => [session, rig.send(session, "open", { name: "frame", ...READ })] as const);
    const { object } = create(rig, 1, "frame");
    const before = rig.answered.length;
    const publish = rig.send(1, "publish", { object });
    assert.deepEqual(
      rig.answered.slice(before).map(({ connection, reply }) => [connection, reply.id, reply.ok]),
      [[1, publish, true], ...waits.map(([session, id]) => [session, id, true])],
    );
    rig.result(1, "publish", { object });
    for (const [session, id] of waits) assert.deepEqual(rig.codes(session, id), ["ok"]);
  });

  it("tells a reader whose descriptor cannot be made, and neither the publisher nor the other readers", () => {
    const rig = new CoreRig();
    for (const id of [1, 2, 3]) rig.greeted(id);
    const unlucky = rig.send(2, "open", { name: "frame", ...READ });
    const lucky = rig.send(3, "open", { name: "frame", ...READ });
    rig.reopenFailure = new CudaIpcError("TOO_MANY_FDS", "full");
    published(rig, 1, "frame");
    assert.deepEqual([rig.codes(2, unlucky), rig.codes(3, lucky)], [["TOO_MANY_FDS"], ["ok"]]);
    assert.equal(rig.result(1, "status", {}).leases, 2);
  });
});

describe("open", () => {
  it("sends a reader of host memory a descriptor of its own, and closes that after it was sent", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const { fds } = published(rig, 1, "frame");
    const { fds: sent } = rig.ask(1, "open", { name: "frame", ...READ });
    assert.equal(sent.length, 1);
    assert.notEqual(sent[0], fds[0]);
    assert.deepEqual([...rig.open], fds);
  });

  it("sends the memory's own descriptor to a writer, and to every reader of a GPU", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const host = published(rig, 1, "host");
    const gpu = published(rig, 1, "gpu", "held", gpuArray);
    assert.deepEqual(rig.ask(1, "open", { name: "host", access: "read-write", wait: false }).fds, host.fds);
    assert.deepEqual(rig.ask(1, "open", { name: "gpu", ...READ_NOW }).fds, gpu.fds);
  });

  it("sends a bundle's index as well", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const { fds } = published(rig, 1, "model", "held", hostBundle(1, 200));
    const { fds: sent } = rig.ask(1, "open", { name: "model", ...READ });
    assert.deepEqual([sent.length, sent[1]], [2, fds[1]]);
  });

  it("leaves no lease where its descriptor cannot be made", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    published(rig, 1, "frame");
    rig.reopenFailure = new CudaIpcError("TOO_MANY_FDS", "full");
    assert.equal(rig.failure(1, "open", { name: "frame", ...READ }), "TOO_MANY_FDS");
    assert.equal(rig.result(1, "status", {}).leases, 1);
  });

  it("waits for a name that was removed until it is published again", () => {
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

  it("refuses a second wait under the same id, and one more than the limit", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const message = encodeMessage({ v: 1, id: 999_999, op: "open", name: "frame", ...READ });
    rig.core.packet(1, message, []);
    rig.core.packet(1, message, []);
    assert.deepEqual(rig.codes(1, 999_999), ["INVALID_MESSAGE"]);
    for (let i = 1; i < limits.waitingOpensPerClientMax; i += 1) rig.send(1, "open", { name: "frame", ...READ });
    assert.equal(rig.failure(1, "open", { name: "frame", ...READ }), "LIMIT_EXCEEDED");
    assert.equal(rig.result(1, "status", {}).waitingOpens, limits.waitingOpensPerClientMax);
  });

  it("is no longer waited for by a session that hung up, said goodbye or died", () => {
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
  it("answers the open with ABORTED, once, and itself", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const wait = rig.send(1, "open", { name: "frame", ...READ });
    rig.result(1, "cancel", { request: wait });
    rig.result(1, "cancel", { request: wait });
    assert.deepEqual(rig.codes(1, wait), ["ABORTED"]);
    published(rig, 1, "frame");
    assert.deepEqual(rig.codes(1, wait), ["ABORTED"]);
  });

  it("says what kept the open waiting if it is asked, and to nobody more than may see it", () => {
    const rig = new CoreRig({ ...privatePolicy(HUB_UID), users: "all" });
    for (const connection of [1, 2]) rig.greeted(connection);
    rig.greeted(3, "test", peerOf(3, { uid: HUB_UID + 1, gid: HUB_UID + 1 }));
    const why = (connection: number, name: string, explain = true) => {
      const request = rig.send(connection, "open", { name, ...READ });
      return rig.result(connection, "cancel", { request, explain });
    };
    create(rig, 1, "frame");
    assert.deepEqual(why(2, "other"), { found: 'no process has created "other"' });
    assert.match(String(why(2, "frame").found), /^process \d+ \(.+\) created it and has not published it yet$/);
    assert.deepEqual(why(3, "frame"), { found: "it is not published yet" });
    assert.deepEqual(why(2, "other", false), {});
    assert.deepEqual(rig.result(2, "cancel", { request: 4711, explain: true }), {});
  });

  it("changes nothing for an open that was answered, nor for somebody else's", () => {
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

describe("release", () => {
  it("ends a held object with the last lease, whoever holds it", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    const { lease } = published(rig, 1, "frame");
    const { lease: reading } = rig.result(2, "open", { name: "frame", ...READ });
    rig.core.processEnded(1);
    assert.deepEqual([names(rig, 2), rig.open.size], [["frame"], 1]);
    rig.result(2, "release", { lease: reading as number });
    assert.deepEqual([names(rig, 2), rig.open.size], [[], 0]);
    assert.equal(rig.failure(2, "release", { lease }), "NOT_FOUND");
  });

  it("is refused for a lease of somebody else, and for the same lease twice", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    const { lease } = published(rig, 1, "frame", "pinned");
    assert.equal(rig.failure(2, "release", { lease }), "NOT_FOUND");
    rig.result(1, "release", { lease });
    assert.equal(rig.failure(1, "release", { lease }), "NOT_FOUND");
    assert.deepEqual(names(rig, 2), ["frame"]);
  });
});

describe("remove", () => {
  it("frees the name at once, and the memory after the last lease", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const { fds, lease } = published(rig, 1, "frame", "pinned");
    rig.result(1, "remove", { name: "frame" });
    assert.equal(rig.failure(1, "remove", { name: "frame" }), "NOT_FOUND");
    assert.deepEqual([...rig.open], fds);
    create(rig, 1, "frame");
    rig.result(1, "release", { lease });
    assert.ok(!rig.open.has(fds[0] as number));
    assert.deepEqual(names(rig, 1), ["frame"]);
  });

  it("frees the memory of a pinned object that nobody holds", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    published(rig, 1, "frame", "pinned");
    rig.core.processEnded(1);
    rig.greeted(2);
    assert.deepEqual([names(rig, 2), rig.open.size], [["frame"], 1]);
    rig.result(2, "remove", { name: "frame" });
    assert.deepEqual([rig.core.objectCount, rig.open.size], [0, 0]);
  });
});

describe("list and inspect", () => {
  it("list all objects in order of names, each page within one message", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const dimensions = new Array<number>(limits.dimensionsMax).fill(Number.MAX_SAFE_INTEGER);
    const array = { dtype: "\u0001".repeat(32), shape: dimensions, strides: dimensions.map((n) => -n), byteOffset: 0 };
    const largest: Descriptor = { ...gpuArray, content: { kind: "array", array } };
    const wanted = Array.from({ length: 100 }, (_, i) => `${i}`.padStart(limits.nameBytesMax, "x")).sort();
    for (const name of [...wanted].reverse()) create(rig, 1, name, "pinned", largest);
    const found: string[] = [];
    let after: string | null | undefined;
    let pages = 0;
    while (after !== null) {
      const page = rig.result(1, "list", after === undefined ? {} : { after });
      found.push(...(page.objects as { name: string }[]).map(({ name }) => name));
      after = page.next as string | null;
      pages += 1;
    }
    assert.deepEqual(found, wanted);
    assert.ok(pages > 1);
  });

  it("name as many holders as fit into one message, and count the others", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    published(rig, 1, "frame");
    for (let id = 2; id <= 500; id += 1) {
      rig.greeted(id, "\u0001".repeat(128));
      rig.result(id, "open", { name: "frame", ...READ });
    }
    const { holders, holdersLeftOut } = rig.result(1, "inspect", { name: "frame" });
    const named = holders as { access: string; pid: number }[];
    assert.equal(named.length + (holdersLeftOut as number), 500);
    assert.ok(named.length > 50);
    assert.deepEqual([named[0]?.access, named[0]?.pid, named[1]?.access], ["owner", 1001, "read"]);
  });

  it("say whether the owner is still there", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    published(rig, 1, "frame", "pinned");
    const ownerPid = () => (rig.result(2, "inspect", { name: "frame" }).object as { ownerPid: unknown }).ownerPid;
    assert.equal(ownerPid(), 1001);
    rig.core.processEnded(1);
    assert.equal(ownerPid(), null);
  });
});

describe("status and stop", () => {
  it("count what there is", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    published(rig, 1, "host", "pinned");
    published(rig, 1, "gpu", "held", gpuArray);
    rig.send(1, "open", { name: "other", ...READ });
    const { clients, objects, pinned, leases, waitingOpens, hostBytes, deviceBytes } = rig.result(1, "status", {});
    assert.deepEqual(
      { clients, objects, pinned, leases, waitingOpens, hostBytes, deviceBytes },
      { clients: 1, objects: 2, pinned: 1, leases: 2, waitingOpens: 1, hostBytes: 4096, deviceBytes: 4096 },
    );
  });

  it("count pinned objects for as long as they have their names", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    const pinned = () => rig.result(2, "status", {}).pinned;
    for (const name of ["removed", "left"]) published(rig, 1, name, "pinned");
    create(rig, 1, "unpublished", "pinned");
    assert.equal(pinned(), 3);
    rig.result(1, "remove", { name: "removed" });
    assert.equal(pinned(), 2);
    rig.core.processEnded(1);
    assert.equal(pinned(), 1);
    rig.result(2, "remove", { name: "left" });
    assert.equal(pinned(), 0);
  });

  it("stop is refused while the hub is of use, unless it is forced", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    assert.equal(rig.failure(1, "stop", { force: false }), "HUB_IN_USE");
    rig.core.processEnded(2);
    const { lease } = create(rig, 1, "frame");
    assert.equal(rig.failure(1, "stop", { force: false }), "HUB_IN_USE");
    assert.equal(rig.stops, 0);
    rig.result(1, "release", { lease });
    rig.result(1, "stop", { force: false });
    create(rig, 1, "frame");
    rig.result(1, "stop", { force: true });
    assert.equal(rig.stops, 2);
    rig.core.close();
    assert.equal(rig.open.size, 0);
  });
});

describe("a client's leases", () => {
  it("are limited", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    published(rig, 1, "gpu", "held", gpuArray);
    const open = encodeMessage({ v: 1, id: 5, op: "open", name: "gpu", ...READ_NOW });
    for (let i = 0; i < limits.leasesPerClientMax; i += 1) rig.core.packet(2, open, []);
    rig.answered.length = 0;
    assert.equal(rig.failure(2, "open", { name: "gpu", ...READ_NOW }), "LIMIT_EXCEEDED");
    rig.result(1, "open", { name: "gpu", ...READ_NOW });
  });
});

describe("a timeline", () => {
  it("is ended when its owner gives it up or dies, and only then", () => {
    for (const end of ["release", "die"] as const) {
      const rig = new CoreRig();
      rig.greeted(1);
      rig.greeted(2);
      const { lease, fds } = published(rig, 1, "steps", "pinned", timelineDescriptor);
      const opened = rig.result(2, "open", { name: "steps", ...READ_NOW });
      rig.result(2, "release", { lease: opened.lease as number });
      rig.result(2, "open", { name: "steps", ...READ_NOW });
      if (end === "die") rig.core.hungUp(1);
      assert.deepEqual(rig.ended, []);
      if (end === "release") rig.result(1, "release", { lease });
      else rig.core.processEnded(1);
      assert.deepEqual(rig.ended, [{ fd: fds[0], byteOffset: 128 }]);
      assert.deepEqual(names(rig, 2), []);
      rig.core.processEnded(2);
      assert.deepEqual([rig.ended.length, rig.open.size, rig.core.objectCount], [1, 0, 0]);
    }
  });

  it("is given for reading alone, and kept only with a descriptor that allows writing", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    published(rig, 1, "steps", "held", timelineDescriptor);
    assert.equal(rig.failure(1, "open", { name: "steps", access: "read-write", wait: false }), "READ_ONLY");
    const { fds } = rig.ask(1, "open", { name: "steps", ...READ_NOW });
    assert.equal(fds.length, 1);
    assert.ok(!rig.open.has(fds[0] as number), "the descriptor for reading is closed once it was sent");
    const create = { name: "other", lifetime: "held", descriptor: timelineDescriptor } as const;
    assert.equal(rig.failure(1, "create", create, [rig.fd({ writable: false })]), "INVALID_DESCRIPTOR");
  });
});
