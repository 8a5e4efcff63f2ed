/** Channels in the hub's core: who gets which descriptors and seats. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { CudaIpcError } from "../../../../src/base/errors.js";
import type { MemoryFileFacts } from "../../../../src/os/memory-file.js";
import { channelFdsAt } from "../../../../src/ring/channel-fds.js";
import { wordsByteLength } from "../../../../src/wire/channel-content.js";
import { peerOf } from "../../../support/core-rig.js";
import { channelOf, gpuArray, hostArray } from "../../../support/messages.js";
import {
  begin,
  bell,
  control,
  create,
  fds,
  OBSERVER,
  open,
  page,
  READER,
  rig,
  roomBell,
  WRITER,
  written,
} from "./channel-rig.js";

beforeEach(begin);

describe("a channel that is created", () => {
  it("needs all its descriptors, and counts its control file and pages as host memory", () => {
    const { content } = channelOf();
    const short = rig.channelFds(content);
    rig.closeFd(short.pop() as number);
    const fields = { name: "c", lifetime: "held", descriptor: channelOf() } as const;
    assert.equal(rig.failure(1, "create", fields, short), "INVALID_MESSAGE");
    create();
    assert.equal(rig.result(1, "status", {}).hostBytes, 4096 + wordsByteLength(content));
    assert.equal(rig.open.size, 7);
    rig.core.processEnded(1);
    assert.deepEqual([rig.open.size, rig.core.objectCount], [0, 0]);
  });

  it("counts its slots on a GPU as GPU memory", () => {
    const { device, mechanism } = gpuArray;
    const descriptor = { ...channelOf(), device, mechanism };
    rig.result(
      1,
      "create",
      { name: "c", lifetime: "held", descriptor },
      rig.channelFds(descriptor.content),
    );
    const { hostBytes, deviceBytes } = rig.result(1, "status", {});
    assert.deepEqual([hostBytes, deviceBytes], [wordsByteLength(descriptor.content), 4 * 64]);
  });

  const spoiled: Record<string, (all: number[]) => void> = {
    "slots that are too few": (all) => all.splice(0, 1, rig.fd({ byteLength: 4 * 64 - 1 })),
    "read-only slots": (all) => all.splice(0, 1, rig.fd({ writable: false })),
    "a control file of another size": (all) => all.splice(1, 1, rig.fd({ byteLength: 8192 })),
    "a control file that can be resized": (all) =>
      rig.facts.set(all[1] as number, { ...factsOf(all, 1), sizeSealed: false }),
    "a control file for reading alone": (all) =>
      rig.facts.set(all[1] as number, { ...factsOf(all, 1), writable: false }),
    "a page of another size": (all) => all.splice(5, 1, rig.fd({ byteLength: 8192 })),
    "a page that can be resized": (all) => all.splice(5, 1, rig.fd({ sizeSealed: false })),
    "a read-only page": (all) => all.splice(3, 1, rig.fd({ writable: false })),
    "a bell that is not one": (all) => all.splice(2, 1, rig.fd()),
    "a reader's bell that is not one": (all) => all.splice(6, 1, rig.fd()),
  };
  const factsOf = (all: number[], index: number) => {
    const facts = rig.facts.get(all[index] as number);
    assert.ok(facts !== undefined);
    return facts;
  };
  for (const [what, spoil] of Object.entries(spoiled)) {
    it(`is refused with ${what}`, () => {
      const descriptor = channelOf();
      const all = rig.channelFds(descriptor.content);
      const before = new Set(all);
      spoil(all);
      assert.equal(
        rig.failure(1, "create", { name: "c", lifetime: "held", descriptor }, all),
        "INVALID_DESCRIPTOR",
      );
      assert.deepEqual(
        [...rig.open].filter((fd) => !before.has(fd)),
        [],
      );
    });
  }

  it("is refused if its files could be sealed against the hub or written by others", () => {
    const descriptor = channelOf();
    const fields = { name: "c", lifetime: "held", descriptor } as const;
    const sharing = { with: "all", access: "read-write" } as const;
    for (const index of [channelFdsAt.control, channelFdsAt.page(0)]) {
      const withFacts = (facts: Partial<MemoryFileFacts>) => {
        const fds = rig.channelFds(descriptor.content);
        const fd = fds[index] as number;
        rig.facts.set(fd, { ...rig.inspectMemoryFile(fd), ...facts });
        return fds;
      };
      assert.equal(
        rig.failure(1, "create", fields, withFacts({ sealsClosed: false })),
        "INVALID_DESCRIPTOR",
      );
      const shared = withFacts({ othersMayWrite: true });
      assert.equal(rig.failure(1, "create", { ...fields, sharing }, shared), "INVALID_DESCRIPTOR");
    }
    rig.result(1, "create", fields, rig.channelFds(descriptor.content));
  });
});

describe("a reader of a channel", () => {
  beforeEach(() => create());

  it("gets the lowest free seat, already begun, and its descriptors", () => {
    const first = open(2);
    const second = open(3);
    assert.deepEqual([first.place, second.place], [0, 1]);
    assert.deepEqual(written(), [
      `${page(0)} begin ${first.lease}`,
      `${page(1)} begin ${second.lease}`,
    ]);
    assert.deepEqual(second.fds.slice(2), [roomBell(), page(1), bell(1)]);
    const [data, itsControl] = second.fds;
    assert.ok(data !== fds[0] && itsControl !== control(), "twins for reading");
    assert.deepEqual([...rig.open].sort(), [...fds].sort(), "the twins are closed");
  });

  it("is refused while all seats are taken", () => {
    const [first] = [open(2), open(3)];
    assert.equal(rig.failure(4, "open", { name: "c", ...READER }), "READERS_FULL");
    written();
    rig.result(2, "release", { lease: first.lease });
    assert.deepEqual(written(), [`${page(0)} end place`, `${roomBell()} ring`]);
    assert.equal(open(4).place, 0);
  });

  it("keeps its seat as long as its process lives, even without a connection", () => {
    open(2);
    written();
    rig.core.hungUp(2);
    assert.deepEqual(written(), []);
    rig.core.processEnded(2);
    assert.deepEqual(written(), [`${page(0)} end place`, `${roomBell()} ring`]);
  });

  it("holds nothing if its page cannot be written", () => {
    rig.placeFailure = new CudaIpcError("SYSTEM_ERROR", "no");
    assert.equal(rig.failure(2, "open", { name: "c", ...READER }), "SYSTEM_ERROR");
    assert.equal(rig.result(1, "status", {}).leases, 1);
    assert.equal(open(2).place, 0);
  });

  it("holds nothing if a descriptor cannot be reopened", () => {
    rig.reopenFailure = new CudaIpcError("TOO_MANY_FDS", "no");
    assert.equal(rig.failure(2, "open", { name: "c", ...READER }), "TOO_MANY_FDS");
    assert.deepEqual([rig.open.size, written()], [fds.length, []]);
  });

  it("that waits gets its seat when the channel is published", () => {
    rig.core.processEnded(1);
    const wait = rig.send(2, "open", { name: "c", access: "read", wait: true, role: "reader" });
    rig.greeted(1);
    create();
    assert.deepEqual(rig.codes(2, wait), ["ok"]);
  });
});

describe("the roles of a channel", () => {
  it("an observer gets the control file and all pages read-only, and takes no seat", () => {
    create();
    const { fds: given, place } = open(2, OBSERVER);
    assert.deepEqual([given.length, place, written()], [3, undefined, []]);
    assert.ok(given.every((fd) => !fds.includes(fd)));
    rig.core.processEnded(2);
    assert.deepEqual(written(), []);
  });

  it("are required for channels and refused for other objects", () => {
    create();
    const none = { name: "c", access: "read", wait: false } as const;
    assert.equal(rig.failure(2, "open", none), "WRONG_KIND");
    const { object: array } = rig.result(
      1,
      "create",
      { name: "a", lifetime: "held", descriptor: hostArray },
      [rig.fd()],
    );
    rig.result(1, "publish", { object: array as number });
    for (const as of [READER, OBSERVER, WRITER])
      assert.equal(rig.failure(2, "open", { name: "a", ...as }), "WRONG_KIND");
  });

  it("allow one access each", () => {
    create();
    for (const as of [READER, OBSERVER, WRITER]) {
      const access = as.access === "read" ? "read-write" : "read";
      assert.equal(rig.failure(2, "open", { name: "c", ...as, access }), "INVALID_MESSAGE");
    }
  });

  it("are shown by inspect", () => {
    create();
    open(2);
    open(3, OBSERVER);
    const { holders } = rig.result(4, "inspect", { name: "c" }) as {
      holders: Record<string, unknown>[];
    };
    assert.deepEqual(
      holders.map(({ access, role, place }) => [access, role, place]),
      [
        ["owner", "writer", undefined],
        ["read", "reader", 0],
        ["read", "observer", undefined],
      ],
    );
  });

  it("respect sharing: readers need read access, and another writer needs write access", () => {
    for (const id of [7, 8]) rig.greeted(id, "test", peerOf(1000 + id, { uid: id, gid: id }));
    create({ whenWriterGone: "wait" }, { with: "all", access: "read" });
    open(7);
    open(7, OBSERVER);
    rig.core.processEnded(1);
    assert.equal(rig.failure(8, "open", { name: "c", ...WRITER }), "PERMISSION_DENIED");
    rig.greeted(1);
    open(1, WRITER);
  });
});
