/** Channels in the hub's core: who gets which descriptors and places, and what is written into the channel's memory when. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { recordsOf, replay } from "../../../src/hub/hub-records.js";
import { privatePolicy } from "../../../src/hub/policy.js";
import type { MemoryFileFacts } from "../../../src/os/memory-file.js";
import { type ChannelContent, channelFdsAt, wordsByteLength } from "../../../src/wire/channel-content.js";
import type { Sharing } from "../../../src/wire/messages.js";
import { CoreRig, HUB_UID, peerOf } from "../../support/core-rig.js";
import { channelOf, gpuArray, hostArray } from "../../support/messages.js";

const READER = { access: "read", wait: false, role: "reader" } as const;
const OBSERVER = { access: "read", wait: false, role: "observer" } as const;
const WRITER = { access: "read-write", wait: false, role: "writer" } as const;
const SERVING_ALL = { ...privatePolicy(HUB_UID), users: "all" } as const;

interface Opened {
  readonly lease: number;
  readonly place?: number;
  readonly fds: readonly number[];
}

let rig: CoreRig;
/** Those of the channel "c". */
let fds: number[];
let object: number;
let writerLease: number;

/** A channel of connection 1, which is published. */
function create(changes: Partial<ChannelContent> = {}, sharing?: Sharing): void {
  const descriptor = channelOf(changes);
  fds = rig.channelFds(descriptor.content);
  const fields = { name: "c", lifetime: "held", descriptor, ...(sharing === undefined ? {} : { sharing }) } as const;
  const result = rig.result(1, "create", fields, fds);
  [object, writerLease] = [result.object as number, result.lease as number];
  rig.result(1, "publish", { object });
}

function open(connection: number, as: typeof READER | typeof OBSERVER | typeof WRITER = READER): Opened {
  const answer = rig.ask(connection, "open", { name: "c", ...as });
  assert.ok(answer.reply.ok, JSON.stringify(answer.reply));
  return { ...(answer.reply.result as Opened), fds: answer.fds };
}

const control = () => fds[channelFdsAt.control] as number;
const page = (place: number) => fds[channelFdsAt.page(place)] as number;
const bell = (place: number) => fds[channelFdsAt.bell(place)] as number;
const roomBell = () => fds[channelFdsAt.roomBell] as number;
const writerEnd = (next: string, by = control()) => [`${by} ${next}`, `${bell(0)} ring`, `${bell(1)} ring`];

/** What was written since this was asked last. */
function written(from = rig): string[] {
  return from.channelWords.splice(0);
}

beforeEach(() => {
  rig = new CoreRig(SERVING_ALL);
  for (const id of [1, 2, 3, 4]) rig.greeted(id);
});

describe("a channel that is created", () => {
  it("needs all its descriptors, and counts what orders it as host memory", () => {
    const { content } = channelOf();
    const short = rig.channelFds(content);
    rig.closeFd(short.pop() as number);
    const fields = { name: "c", lifetime: "held", descriptor: channelOf() } as const;
    assert.equal(rig.failure(1, "create", fields, short), "INVALID_MESSAGE");
    create();
    assert.equal(rig.result(1, "status", {}).hostBytes, 4 * 64 + wordsByteLength(content));
    assert.equal(rig.open.size, 7);
    rig.core.processEnded(1);
    assert.deepEqual([rig.open.size, rig.core.objectCount], [0, 0]);
  });

  it("counts its slots on a GPU as GPU memory", () => {
    const { device, mechanism } = gpuArray;
    const descriptor = { ...channelOf(), device, mechanism };
    rig.result(1, "create", { name: "c", lifetime: "held", descriptor }, rig.channelFds(descriptor.content));
    const { hostBytes, deviceBytes } = rig.result(1, "status", {});
    assert.deepEqual([hostBytes, deviceBytes], [wordsByteLength(descriptor.content), 4 * 64]);
  });

  const spoiled: Record<string, (all: number[]) => void> = {
    "slots that are too few": (all) => all.splice(0, 1, rig.fd({ byteLength: 4 * 64 - 1 })),
    "slots for reading alone": (all) => all.splice(0, 1, rig.fd({ writable: false })),
    "a control file of another size": (all) => all.splice(1, 1, rig.fd({ byteLength: 8192 })),
    "a control file that can be resized": (all) =>
      rig.facts.set(all[1] as number, { ...factsOf(all, 1), sizeSealed: false }),
    "a control file for reading alone": (all) =>
      rig.facts.set(all[1] as number, { ...factsOf(all, 1), writable: false }),
    "a page of another size": (all) => all.splice(5, 1, rig.fd({ byteLength: 8192 })),
    "a page that can be resized": (all) => all.splice(5, 1, rig.fd({ sizeSealed: false })),
    "a page for reading alone": (all) => all.splice(3, 1, rig.fd({ writable: false })),
    "a bell that is none": (all) => all.splice(2, 1, rig.fd()),
    "a bell of a reader that is none": (all) => all.splice(6, 1, rig.fd()),
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
      assert.equal(rig.failure(1, "create", { name: "c", lifetime: "held", descriptor }, all), "INVALID_DESCRIPTOR");
      assert.deepEqual(
        [...rig.open].filter((fd) => !before.has(fd)),
        [],
      );
    });
  }

  it("is refused where its files could be sealed against the hub, or be written by others", () => {
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
      assert.equal(rig.failure(1, "create", fields, withFacts({ sealsClosed: false })), "INVALID_DESCRIPTOR");
      const shared = withFacts({ othersMayWrite: true });
      assert.equal(rig.failure(1, "create", { ...fields, sharing }, shared), "INVALID_DESCRIPTOR");
    }
    rig.result(1, "create", fields, rig.channelFds(descriptor.content));
  });
});

describe("a reader of a channel", () => {
  beforeEach(() => create());

  it("gets the lowest free place, which is begun before it knows, and what belongs to it", () => {
    const first = open(2);
    const second = open(3);
    assert.deepEqual([first.place, second.place], [0, 1]);
    assert.deepEqual(written(), [`${page(0)} begin ${first.lease}`, `${page(1)} begin ${second.lease}`]);
    assert.deepEqual(second.fds.slice(2), [roomBell(), page(1), bell(1)]);
    const [data, itsControl] = second.fds;
    assert.ok(data !== fds[0] && itsControl !== control(), "twins for reading");
    assert.deepEqual([...rig.open].sort(), [...fds].sort(), "the twins are closed");
  });

  it("is refused where all places are taken, until one is free", () => {
    const [first] = [open(2), open(3)];
    assert.equal(rig.failure(4, "open", { name: "c", ...READER }), "READERS_FULL");
    written();
    rig.result(2, "release", { lease: first.lease });
    assert.deepEqual(written(), [`${page(0)} end place`, `${roomBell()} ring`]);
    assert.equal(open(4).place, 0);
  });

  it("keeps its place while its process lives, whatever becomes of its connection", () => {
    open(2);
    written();
    rig.core.hungUp(2);
    assert.deepEqual(written(), []);
    rig.core.processEnded(2);
    assert.deepEqual(written(), [`${page(0)} end place`, `${roomBell()} ring`]);
  });

  it("holds nothing where its page cannot be written", () => {
    rig.placeFailure = new CudaIpcError("SYSTEM_ERROR", "no");
    assert.equal(rig.failure(2, "open", { name: "c", ...READER }), "SYSTEM_ERROR");
    assert.equal(rig.result(1, "status", {}).leases, 1);
    assert.equal(open(2).place, 0);
  });

  it("holds nothing where a descriptor cannot be opened anew", () => {
    rig.reopenFailure = new CudaIpcError("TOO_MANY_FDS", "no");
    assert.equal(rig.failure(2, "open", { name: "c", ...READER }), "TOO_MANY_FDS");
    assert.deepEqual([rig.open.size, written()], [fds.length, []]);
  });

  it("that waits gets its place when the channel is published", () => {
    rig.core.processEnded(1);
    const wait = rig.send(2, "open", { name: "c", access: "read", wait: true, role: "reader" });
    rig.greeted(1);
    create();
    assert.deepEqual(rig.codes(2, wait), ["ok"]);
  });
});

describe("the roles of a channel", () => {
  it("an observer sees the control file and all pages, for reading, and takes no place", () => {
    create();
    const { fds: given, place } = open(2, OBSERVER);
    assert.deepEqual([given.length, place, written()], [3, undefined, []]);
    assert.ok(given.every((fd) => !fds.includes(fd)));
    rig.core.processEnded(2);
    assert.deepEqual(written(), []);
  });

  it("are wanted for channels and refused for anything else", () => {
    create();
    const none = { name: "c", access: "read", wait: false } as const;
    assert.equal(rig.failure(2, "open", none), "WRONG_KIND");
    const { object: array } = rig.result(1, "create", { name: "a", lifetime: "held", descriptor: hostArray }, [
      rig.fd(),
    ]);
    rig.result(1, "publish", { object: array as number });
    for (const as of [READER, OBSERVER, WRITER])
      assert.equal(rig.failure(2, "open", { name: "a", ...as }), "WRONG_KIND");
  });

  it("go with one access each", () => {
    create();
    for (const as of [READER, OBSERVER, WRITER]) {
      const access = as.access === "read" ? "read-write" : "read";
      assert.equal(rig.failure(2, "open", { name: "c", ...as, access }), "INVALID_MESSAGE");
    }
  });

  it("are told to those who inspect it", () => {
    create();
    open(2);
    open(3, OBSERVER);
    const { holders } = rig.result(4, "inspect", { name: "c" }) as { holders: Record<string, unknown>[] };
    assert.deepEqual(
      holders.map(({ access, role, place }) => [access, role, place]),
      [
        ["owner", "writer", undefined],
        ["read", "reader", 0],
        ["read", "observer", undefined],
      ],
    );
  });

  it("are for those with whom it is shared: reading for readers, writing for another writer", () => {
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

describe("the writer of a channel", () => {
  it("has its name for as long as it lives, and readers go on without it", () => {
    create();
    const { lease } = open(2);
    written();
    rig.core.hungUp(1);
    assert.deepEqual(written(), []);
    rig.core.processEnded(1);
    assert.deepEqual(written().slice(0, 3), writerEnd("gone"));
    assert.equal(rig.failure(3, "open", { name: "c", ...READER }), "NOT_FOUND");
    assert.equal(rig.core.objectCount, 1);
    rig.result(2, "release", { lease });
    assert.deepEqual([rig.core.objectCount, rig.open.size], [0, 0]);
  });

  it("is awaited where the channel was made so, with its name, and gets all of it", () => {
    create({ whenWriterGone: "wait" });
    open(2);
    written();
    assert.equal(rig.failure(3, "open", { name: "c", ...WRITER }), "IN_USE");
    rig.result(1, "release", { lease: writerLease });
    assert.deepEqual(written(), writerEnd("awaited"));
    assert.equal(open(3).place, 1);
    const next = open(4, WRITER);
    assert.deepEqual(next.fds, fds);
    assert.equal(rig.failure(1, "open", { name: "c", ...WRITER }), "IN_USE");
    written();
    rig.core.processEnded(4);
    assert.deepEqual(written(), writerEnd("awaited"));
  });

  it("has ended a channel that it closed: nobody is awaited", () => {
    create({ whenWriterGone: "wait" });
    open(2);
    rig.closedByWriter.add(control());
    rig.core.processEnded(1);
    assert.equal(rig.failure(3, "open", { name: "c", ...READER }), "NOT_FOUND");
    assert.equal(rig.core.objectCount, 1);
  });

  it("is not awaited where nobody can find the name, or nobody is there", () => {
    create({ whenWriterGone: "wait" });
    open(2);
    rig.result(1, "remove", { name: "c" });
    written();
    rig.core.processEnded(1);
    assert.deepEqual(written().slice(0, 3), writerEnd("removed"));
    rig.core.processEnded(2);
    assert.equal(rig.core.objectCount, 0);
    rig.greeted(1);
    create({ whenWriterGone: "wait" });
    rig.core.processEnded(1);
    assert.equal(rig.core.objectCount, 0);
  });

  it("is awaited no more once the name is removed", () => {
    create({ whenWriterGone: "wait" });
    open(2);
    rig.core.processEnded(1);
    written();
    rig.result(3, "remove", { name: "c" });
    assert.deepEqual(written(), writerEnd("removed"));
  });

  it("that never published it takes it along, and a pinned one ends with it too", () => {
    const descriptor = channelOf({ whenWriterGone: "wait" });
    fds = rig.channelFds(descriptor.content);
    rig.result(1, "create", { name: "c", lifetime: "pinned", descriptor }, fds);
    rig.core.processEnded(1);
    assert.equal(rig.core.objectCount, 0);
    rig.greeted(1);
    fds = rig.channelFds(channelOf().content);
    const fields = { name: "c", lifetime: "pinned", descriptor: channelOf() } as const;
    const { object: pinned } = rig.result(1, "create", fields, fds);
    rig.result(1, "publish", { object: pinned as number });
    rig.core.processEnded(1);
    assert.equal(rig.core.objectCount, 0);
  });

  it("leaves a pinned one that waits, which stays without anybody", () => {
    const descriptor = channelOf({ whenWriterGone: "wait" });
    fds = rig.channelFds(descriptor.content);
    const { object: pinned } = rig.result(1, "create", { name: "c", lifetime: "pinned", descriptor }, fds);
    rig.result(1, "publish", { object: pinned as number });
    rig.core.processEnded(1);
    assert.equal(rig.core.objectCount, 1);
    assert.deepEqual(open(2, WRITER).fds, fds);
  });
});

describe("a channel after a crash of the hub", () => {
  /** The next hub, with what the journal says, and memory where it was kept; the n-th session's process is watched as number -n. */
  function nextHub(memory: CoreRig["kept"] = new Map()): CoreRig {
    const next = new CoreRig(SERVING_ALL, 1000);
    const state = replay(rig.records);
    const connections = [...state.sessions.values()].map((session, index) => {
      return { id: -1 - index, peer: session, session };
    });
    const kept = new Map([...memory].map(([id, all]) => [id, { fds: brought(next, all) as [number], writable: true }]));
    next.core.inherit({ state, connections, memory: kept });
    return next;
  }

  /** The same files, as somebody brings them. */
  function brought(next: CoreRig, all: readonly number[], writable = true): number[] {
    return all.map((fd) => {
      if (rig.bells.has(fd)) return next.bell();
      return next.fd({ ...rig.facts.get(fd), writable });
    });
  }

  function sessionOf(pid: number): number {
    const found = [...rig.core.state().sessions.values()].find((session) => session.pid === pid);
    assert.ok(found !== undefined);
    return found.id;
  }

  const partsOf = (place: number) => [fds[0], control(), roomBell(), page(place), bell(place)] as number[];

  it("has its places and roles, and its memory when the writer brings it", () => {
    create();
    const reader = open(2);
    open(3, OBSERVER);
    const next = nextHub();
    assert.deepEqual(next.core.state().leases, rig.core.state().leases);
    assert.deepEqual(replay([...recordsOf(next.core.state())]), next.core.state());
    next.resumed(5, sessionOf(1001), peerOf(1001));
    next.resumed(6, sessionOf(1002), peerOf(1002));
    next.result(6, "restore", { lease: reader.lease }, brought(next, partsOf(0), false));
    const all = brought(next, fds);
    next.result(5, "restore", { lease: writerLease }, all);
    assert.equal(next.open.size, all.length, "what the reader brought is not needed any more");
    assert.deepEqual(written(next), [`${all[5]} end place`, `${all[2]} ring`]);
    next.result(5, "restored", {});
    assert.equal(next.failure(5, "open", { name: "c", ...WRITER }), "IN_USE");
    assert.equal(next.result(5, "open", { name: "c", ...READER }).place, 1);
  });

  it("is refused other files, and too many or too few", () => {
    create();
    const reader = open(2);
    const observer = open(3, OBSERVER);
    const next = nextHub();
    next.resumed(5, sessionOf(1001), peerOf(1001));
    next.resumed(6, sessionOf(1002), peerOf(1002));
    next.resumed(7, sessionOf(1003), peerOf(1003));
    const [otherPage, readOnly] = [brought(next, fds), brought(next, fds, false)];
    next.facts.set(otherPage[5] as number, { ...(rig.facts.get(page(1)) as object), inode: "9:9" } as never);
    for (const all of [otherPage, readOnly]) {
      assert.equal(next.failure(5, "restore", { lease: writerLease }, all), "INVALID_DESCRIPTOR");
    }
    assert.equal(next.failure(5, "restore", { lease: writerLease }, brought(next, partsOf(0))), "INVALID_MESSAGE");
    assert.equal(next.failure(6, "restore", { lease: reader.lease }, brought(next, fds)), "INVALID_MESSAGE");
    assert.equal(next.failure(6, "restore", { lease: reader.lease }, brought(next, partsOf(1))), "INVALID_DESCRIPTOR");
    const noBell = brought(next, partsOf(0));
    next.bells.delete(noBell[4] as number);
    assert.equal(next.failure(6, "restore", { lease: reader.lease }, noBell), "INVALID_DESCRIPTOR");
    assert.equal(next.failure(7, "restore", { lease: observer.lease }, [next.fd()]), "INVALID_MESSAGE");
    next.result(7, "restore", { lease: observer.lease });
    assert.deepEqual(written(next), []);
    assert.equal(next.open.size, 0);
  });

  for (const order of ["before", "after"] as const) {
    it(`ends for a reader where the writer dies ${order} the reader has come back`, () => {
      create({ whenWriterGone: "wait" });
      const reader = open(2);
      const next = nextHub();
      next.resumed(6, sessionOf(1002), peerOf(1002));
      const parts = brought(next, partsOf(0), false);
      if (order === "before") next.core.processEnded(-1);
      next.result(6, "restore", { lease: reader.lease }, parts);
      if (order === "after") {
        assert.deepEqual(written(next), []);
        next.core.processEnded(-1);
      }
      assert.deepEqual(written(next), [`${parts[1]} gone`, `${parts[4]} ring`]);
      assert.equal(next.open.size, 0);
      assert.equal(next.failure(6, "inspect", { name: "c" }), "NOT_FOUND");
      next.result(6, "release", { lease: reader.lease });
      assert.equal(next.core.objectCount, 0);
    });
  }

  it("keeps nothing of a reader that dies, nor of a hub that ends", () => {
    create();
    const [reader, other] = [open(2), open(3)];
    const next = nextHub();
    next.resumed(6, sessionOf(1002), peerOf(1002));
    next.resumed(7, sessionOf(1003), peerOf(1003));
    next.result(6, "restore", { lease: reader.lease }, brought(next, partsOf(0)));
    next.result(6, "restore", { lease: reader.lease }, brought(next, partsOf(0)));
    next.result(7, "restore", { lease: other.lease }, brought(next, partsOf(1)));
    assert.equal(next.open.size, 10);
    next.core.processEnded(6);
    assert.equal(next.open.size, 5);
    next.core.close();
    assert.equal(next.open.size, 0);
  });

  it("is settled where its memory was kept: free places, and a writer that left", () => {
    create({ whenWriterGone: "wait" });
    open(2);
    rig.result(1, "release", { lease: writerLease });
    const next = nextHub(rig.kept);
    const all = [...next.kept.values()][0] as readonly number[];
    assert.deepEqual(written(next), [
      `${all[5]} end place`,
      `${all[2]} ring`,
      `${all[1]} awaited`,
      `${all[4]} ring`,
      `${all[6]} ring`,
    ]);
    next.core.processEnded(-2);
    assert.equal(next.core.objectCount, 0);
  });

  it("a journal without roles and places is read", () => {
    const old = { t: "lease", id: 3, object: 1, session: 2, kind: "read" } as const;
    create();
    open(2);
    const text = JSON.stringify(rig.records);
    assert.match(text, /"role":"reader","place":0/);
    const state = replay([...rig.records, { ...old, object, session: sessionOf(1002) }]);
    assert.equal(state.leases.get(3)?.role, undefined);
  });
});
