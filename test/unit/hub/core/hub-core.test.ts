import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { encodeMessage } from "../../../../src/wire/codec.js";
import { CoreRig, peerOf } from "../../../support/core-rig.js";
import { channelOf, gpuArray, requests, timelineDescriptor } from "../../../support/messages.js";
import { create, names, published, READ, READ_NOW } from "./core-requests.js";

describe("a session", () => {
  for (const request of requests.filter(({ op }) => op !== "hello")) {
    it(`that begins with ${request.op} is refused and hung up on, and its descriptors are closed`, () => {
      const rig = new CoreRig();
      rig.core.connected(1, peerOf(1001));
      const fds = request.op === "create" ? [rig.fd()] : [];
      rig.core.packet(1, encodeMessage(request), fds);
      assert.deepEqual(
        [rig.codes(1, request.id), rig.hungUp, rig.open.size],
        [["INVALID_MESSAGE"], [1], 0],
      );
      assert.equal(rig.core.objectCount, 0);
    });
  }

  it("that sends an invalid message gets an error with its request id and is hung up on", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.core.packet(1, Buffer.from('{"v":1,"id":77,"op":"nonsense"}'), [rig.fd()]);
    rig.core.packet(1, Buffer.from("not JSON"), []);
    assert.deepEqual(
      [rig.codes(1, 77), rig.codes(1, 0)],
      [["INVALID_MESSAGE"], ["INVALID_MESSAGE"]],
    );
    assert.deepEqual([rig.hungUp, rig.open.size], [[1, 1], 0]);
  });

  const list = (text: string) => `{"v":1,"id":7,"op":"list","x":${text}}`;
  const hostile = {
    "lists in lists": list("[".repeat(32_000) + "]".repeat(32_000)),
    "objects in objects": list(`${'{"a":'.repeat(9000)}0${"}".repeat(9000)}`),
    "lists without an end": "[".repeat(65_000),
    "a long list": list(`[${"0,".repeat(30_000)}0]`),
    "many fields": list(`0,${Array.from({ length: 6000 }, (_, at) => `"k${at}":1`).join()}`),
  };
  for (const [what, text] of Object.entries(hostile)) {
    it(`that sends ${what} is hung up on, and nothing is parsed`, (t) => {
      const rig = new CoreRig();
      rig.greeted(1);
      const { mock } = t.mock.method(JSON, "parse");
      rig.core.packet(1, Buffer.from(text), []);
      rig.core.damagedPacket(1, Buffer.from(text), new CudaIpcError("TOO_MANY_FDS", "lost"));
      assert.equal(mock.callCount(), 0);
      assert.deepEqual([rig.codes(1, 0), rig.hungUp], [["INVALID_MESSAGE", "TOO_MANY_FDS"], [1]]);
    });
  }

  it("that is refused has each message parsed once", (t) => {
    const rig = new CoreRig();
    rig.greeted(1);
    const { mock } = t.mock.method(JSON, "parse");
    for (const text of ['{"v":1,"id":77,"op":"nonsense"}', '{"v":2,"id":78}', "not JSON"])
      rig.core.packet(1, Buffer.from(text), []);
    assert.equal(mock.callCount(), 3);
    assert.deepEqual(
      [77, 78, 0].map((id) => rig.codes(1, id)),
      [["INVALID_MESSAGE"], ["PROTOCOL_MISMATCH"], ["INVALID_MESSAGE"]],
    );
  });

  it("may name an object with as many brackets, commas and quotes as it likes", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    for (const name of ["[{,".repeat(5000), '\\"['.repeat(5000), '"'.repeat(16_000)])
      assert.equal(rig.failure(1, "inspect", { name }), "INVALID_NAME");
    assert.deepEqual(rig.hungUp, []);
  });

  it("of another version gets an error with both versions", () => {
    const rig = new CoreRig();
    rig.core.connected(1, peerOf(1001));
    rig.core.packet(1, Buffer.from('{"v":9,"id":1,"op":"hello"}'), []);
    assert.deepEqual(rig.codes(1, 1), ["PROTOCOL_MISMATCH"]);
    assert.match(JSON.stringify(rig.answersTo(1, 1)), /version 9.*version 1/);
    assert.deepEqual(rig.hungUp, [1]);
  });

  it("that lost descriptors gets an error and goes on", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const bytes = Buffer.from('{"v":1,"id":5,"op":"create"}');
    rig.core.damagedPacket(1, bytes, new CudaIpcError("TOO_MANY_FDS", "lost"));
    assert.deepEqual([rig.codes(1, 5), rig.hungUp], [["TOO_MANY_FDS"], []]);
    rig.core.damagedPacket(1, bytes, new CudaIpcError("MESSAGE_TOO_LARGE", "cut"));
    assert.deepEqual(rig.hungUp, [1]);
  });

  it("that is unknown keeps no descriptors", () => {
    const rig = new CoreRig();
    rig.core.packet(5, encodeMessage({ v: 1, id: 1, op: "status" }), [rig.fd(), rig.fd()]);
    assert.deepEqual([rig.open.size, rig.answered.length], [0, 0]);
  });

  it("ends with its hang-up if it holds nothing, and otherwise with its process", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    create(rig, 2, "frame");
    rig.core.hungUp(1);
    rig.core.hungUp(2);
    assert.deepEqual(
      [rig.core.hasConnection(1), rig.core.hasConnection(2), rig.core.objectCount],
      [false, true, 1],
    );
    rig.core.processEnded(2);
    assert.deepEqual([rig.core.connectionCount, rig.core.objectCount, rig.open.size], [0, 0, 0]);
  });

  it('releases everything on "bye", and is answered before the hang-up', () => {
    const rig = new CoreRig();
    rig.greeted(1);
    create(rig, 1, "frame");
    rig.result(1, "bye", {});
    assert.deepEqual([rig.hungUp, rig.core.hasConnection(1), rig.open.size], [[1], false, 0]);
  });
});

describe("a session with many leases", () => {
  it("ends in steps that close few descriptors each", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const descriptor = channelOf({ readersMax: 64 });
    for (const name of ["a", "b", "c"]) {
      const fields = { name, lifetime: "held", descriptor } as const;
      rig.result(1, "create", fields, rig.channelFds(descriptor.content));
    }
    const each = rig.open.size / 3;
    rig.defers = true;
    rig.core.processEnded(1);
    const left = [rig.open.size];
    for (let [step] = rig.steps; step?.(); [step] = rig.steps) left.push(rig.open.size);
    left.push(rig.open.size);
    assert.deepEqual(left, [2 * each, each, 0]);
  });
});

describe("status and stop", () => {
  it("count clients, objects, leases and bytes", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    published(rig, 1, "host", "pinned");
    published(rig, 1, "gpu", "held", gpuArray);
    rig.send(1, "open", { name: "other", ...READ });
    const { clients, objects, pinned, leases, waitingOpens, hostBytes, deviceBytes } = rig.result(
      1,
      "status",
      {},
    );
    assert.deepEqual(
      { clients, objects, pinned, leases, waitingOpens, hostBytes, deviceBytes },
      {
        clients: 1,
        objects: 2,
        pinned: 1,
        leases: 2,
        waitingOpens: 1,
        hostBytes: 4096,
        deviceBytes: 4096,
      },
    );
  });

  it("count pinned objects as long as they have their names", () => {
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

  it("stop is refused while the hub is in use, unless forced", () => {
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
  it("ends only when its owner releases it or dies", () => {
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

  it("is given read-only, and accepted only with a writable descriptor", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    published(rig, 1, "steps", "held", timelineDescriptor);
    assert.equal(
      rig.failure(1, "open", { name: "steps", access: "read-write", wait: false }),
      "READ_ONLY",
    );
    const { fds } = rig.ask(1, "open", { name: "steps", ...READ_NOW });
    assert.equal(fds.length, 1);
    assert.ok(
      !rig.open.has(fds[0] as number),
      "the descriptor for reading is closed once it was sent",
    );
    const create = { name: "other", lifetime: "held", descriptor: timelineDescriptor } as const;
    assert.equal(
      rig.failure(1, "create", create, [rig.fd({ writable: false })]),
      "INVALID_DESCRIPTOR",
    );
  });
});
