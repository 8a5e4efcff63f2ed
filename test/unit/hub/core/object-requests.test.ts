import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import { limits } from "../../../../src/base/limits.js";
import { poolFileBytes } from "../../../../src/base/pool-layout.js";
import type { MemoryFileFacts } from "../../../../src/os/memory-file.js";
import type { Descriptor } from "../../../../src/wire/descriptor.js";
import { CoreRig } from "../../../support/core-rig.js";
import {
  channelOf,
  gpuArray,
  hostArray,
  hostBundle,
  hostPool,
  legacyArray,
  timelineDescriptor,
} from "../../../support/messages.js";
import { create, names, published, READ, READ_NOW } from "./core-requests.js";

describe("create", () => {
  const fits = { name: "frame", lifetime: "held" } as const;
  const refused: Record<string, [Descriptor, (rig: CoreRig) => number[], string]> = {
    "no descriptors": [hostArray, () => [], "INVALID_MESSAGE"],
    "a descriptor too many": [hostArray, (rig) => [rig.fd(), rig.fd()], "INVALID_MESSAGE"],
    "a bundle without its index": [hostBundle(1, 200), (rig) => [rig.fd()], "INVALID_MESSAGE"],
    "memory smaller than claimed": [
      hostArray,
      (rig) => [rig.fd({ byteLength: 4095 })],
      "INVALID_DESCRIPTOR",
    ],
    "memory longer than claimed": [
      hostArray,
      (rig) => [rig.fd({ byteLength: 2 ** 30 })],
      "INVALID_DESCRIPTOR",
    ],
    "the memory of a timeline that is longer than claimed": [
      timelineDescriptor,
      (rig) => [rig.fd({ byteLength: 4097 })],
      "INVALID_DESCRIPTOR",
    ],
    "a host pool longer than a pool of its size": [
      hostPool(8192),
      (rig) => [rig.fd({ byteLength: poolFileBytes(8192) + 1 })],
      "INVALID_DESCRIPTOR",
    ],
    "a mark longer than a page": [
      legacyArray,
      (rig) => [rig.fd({ byteLength: 8192 })],
      "INVALID_DESCRIPTOR",
    ],
    "the slots of a channel that are longer than claimed": [
      channelOf(),
      (rig) => {
        const all = rig.channelFds(channelOf().content);
        rig.facts.set(all[0] as number, {
          ...(rig.facts.get(all[0] as number) as MemoryFileFacts),
          byteLength: 4097,
        });
        return all;
      },
      "INVALID_DESCRIPTOR",
    ],
    "memory that can be resized": [
      hostArray,
      (rig) => [rig.fd({ sizeSealed: false })],
      "INVALID_DESCRIPTOR",
    ],
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
    "a mark shorter than a page": [
      legacyArray,
      (rig) => [rig.fd({ byteLength: 4095 })],
      "INVALID_DESCRIPTOR",
    ],
    "a mark that can be resized": [
      legacyArray,
      (rig) => [rig.fd({ sizeSealed: false })],
      "INVALID_DESCRIPTOR",
    ],
    "a mark that the hub cannot end": [
      legacyArray,
      (rig) => [rig.fd({ writable: false })],
      "INVALID_DESCRIPTOR",
    ],
    "a mark that others could seal": [
      legacyArray,
      (rig) => [rig.fd({ sealsClosed: false })],
      "INVALID_DESCRIPTOR",
    ],
    "legacy memory without its mark": [legacyArray, () => [], "INVALID_MESSAGE"],
    "a contradiction": [
      { ...hostArray, byteLength: 5000 },
      (rig) => [rig.fd()],
      "INVALID_DESCRIPTOR",
    ],
  };
  for (const [what, [descriptor, fds, code]] of Object.entries(refused)) {
    it(`refuses ${what} with ${code}, and closes its descriptors`, () => {
      const rig = new CoreRig();
      rig.greeted(1);
      assert.equal(rig.failure(1, "create", { ...fits, descriptor }, fds(rig)), code);
      assert.deepEqual([rig.open.size, rig.core.objectCount, rig.hungUp], [0, 0, []]);
    });
  }

  it("refuses bad and taken names, and closes the descriptors", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    assert.equal(
      rig.failure(1, "create", { ...fits, name: "a/b", descriptor: hostArray }, [rig.fd()]),
      "INVALID_NAME",
    );
    create(rig, 1, "frame");
    assert.equal(
      rig.failure(1, "create", { ...fits, descriptor: hostArray }, [rig.fd()]),
      "NAME_TAKEN",
    );
    assert.equal(rig.open.size, 1);
  });

  it("accepts GPU memory without its size, which only the driver knows", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const fd = rig.fd({ byteLength: 0, sizeSealed: false });
    rig.result(1, "create", { ...fits, descriptor: gpuArray }, [fd]);
    assert.ok(rig.open.has(fd));
  });

  it("cannot be opened before publish", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    rig.greeted(2);
    const { object } = create(rig, 1, "frame");
    assert.equal(rig.failure(2, "open", { name: "frame", ...READ_NOW }), "NOT_FOUND");
    rig.result(1, "publish", { object });
    rig.result(2, "open", { name: "frame", ...READ_NOW });
  });

  it("ends with its owner if it is not published, even if pinned", () => {
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
  it("is only for the object's creator, and may be repeated", () => {
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

  it("is refused once the owner's lease has ended", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const { object, lease } = published(rig, 1, "frame", "pinned");
    rig.result(1, "release", { lease });
    assert.equal(rig.failure(1, "publish", { object }), "NOT_OWNER");
  });

  it("answers the publisher first, then each waiting open once, in order of arrival", () => {
    const rig = new CoreRig();
    for (const id of [1, 2, 3]) rig.greeted(id);
    const waits = [3, 3, 2].map(
      (session) => [session, rig.send(session, "open", { name: "frame", ...READ })] as const,
    );
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

  it("reports a descriptor that cannot be made only to its reader", () => {
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

  it("is refused for another client's lease, and for the same lease twice", () => {
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
  it("list all objects in order of names, one message for each page", () => {
    const rig = new CoreRig();
    rig.greeted(1);
    const dimensions = new Array<number>(limits.dimensionsMax).fill(Number.MAX_SAFE_INTEGER);
    const array = {
      dtype: "\u0001".repeat(32),
      shape: dimensions,
      strides: dimensions.map((n) => -n),
      byteOffset: 0,
    };
    const largest: Descriptor = { ...gpuArray, content: { kind: "array", array } };
    const wanted = Array.from({ length: 100 }, (_, i) =>
      `${i}`.padStart(limits.nameBytesMax, "x"),
    ).sort();
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

  it("list as many holders as fit into one message, and count the others", () => {
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
    const ownerPid = () =>
      (rig.result(2, "inspect", { name: "frame" }).object as { ownerPid: unknown }).ownerPid;
    assert.equal(ownerPid(), 1001);
    rig.core.processEnded(1);
    assert.equal(ownerPid(), null);
  });
});
