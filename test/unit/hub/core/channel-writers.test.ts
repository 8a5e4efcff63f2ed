/** Channels in the hub's core: the end of writers, and channels after a crash of the hub. */
import assert from "node:assert/strict";
import { beforeEach, describe, it } from "node:test";
import { recordsOf, replay } from "../../../../src/hub/restart/hub-records.js";
import { CoreRig, peerOf } from "../../../support/core-rig.js";
import { channelOf } from "../../../support/messages.js";
import {
  begin,
  bell,
  bringFds,
  control,
  create,
  fds,
  OBSERVER,
  object,
  open,
  page,
  READER,
  rig,
  roomBell,
  SERVING_ALL,
  WRITER,
  writerEnd,
  writerLease,
  written,
} from "./channel-rig.js";

beforeEach(begin);

describe("the writer of a channel", () => {
  it("keeps the name as long as it lives, and readers go on without it", () => {
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

  it("is awaited if the channel was created so, and the next one gets all memory", () => {
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

  it("is not awaited if it closed the channel itself", () => {
    create({ whenWriterGone: "wait" });
    open(2);
    rig.closedByWriter.add(control());
    rig.core.processEnded(1);
    assert.equal(rig.failure(3, "open", { name: "c", ...READER }), "NOT_FOUND");
    assert.equal(rig.core.objectCount, 1);
  });

  it("is not awaited without a name or without holders", () => {
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

  it("is no longer awaited once the name is removed", () => {
    create({ whenWriterGone: "wait" });
    open(2);
    rig.core.processEnded(1);
    written();
    rig.result(3, "remove", { name: "c" });
    assert.deepEqual(written(), writerEnd("removed"));
  });

  it("ends the channel with it if it was never published, even if pinned", () => {
    const descriptor = channelOf({ whenWriterGone: "wait" });
    bringFds(rig.channelFds(descriptor.content));
    rig.result(1, "create", { name: "c", lifetime: "pinned", descriptor }, fds);
    rig.core.processEnded(1);
    assert.equal(rig.core.objectCount, 0);
    rig.greeted(1);
    bringFds(rig.channelFds(channelOf().content));
    const fields = { name: "c", lifetime: "pinned", descriptor: channelOf() } as const;
    const { object: pinned } = rig.result(1, "create", fields, fds);
    rig.result(1, "publish", { object: pinned as number });
    rig.core.processEnded(1);
    assert.equal(rig.core.objectCount, 0);
  });

  it("leaves a pinned waiting channel, which stays without holders", () => {
    const descriptor = channelOf({ whenWriterGone: "wait" });
    bringFds(rig.channelFds(descriptor.content));
    const { object: pinned } = rig.result(
      1,
      "create",
      { name: "c", lifetime: "pinned", descriptor },
      fds,
    );
    rig.result(1, "publish", { object: pinned as number });
    rig.core.processEnded(1);
    assert.equal(rig.core.objectCount, 1);
    assert.deepEqual(open(2, WRITER).fds, fds);
  });
});

describe("a channel after a crash of the hub", () => {
  /**
   * The next hub, with the state of the journal and any kept memory. It watches the n-th session's
   * process as connection -n.
   */
  function nextHub(memory: CoreRig["kept"] = new Map()): CoreRig {
    const next = new CoreRig(SERVING_ALL, 1000);
    const state = replay(rig.records);
    const connections = [...state.sessions.values()].map((session, index) => {
      return { id: -1 - index, peer: session, session };
    });
    const kept = new Map(
      [...memory].map(([id, all]) => [id, { fds: brought(next, all) as [number], writable: true }]),
    );
    next.core.inherit({ state, connections, memory: kept });
    return next;
  }

  /** Descriptors of the same files, as a client brings them. */
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

  const partsOf = (place: number) =>
    [fds[0], control(), roomBell(), page(place), bell(place)] as number[];

  it("has its seats and roles, and its memory when the writer brings it", () => {
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
    assert.equal(next.open.size, all.length, "the reader's descriptors are closed");
    assert.deepEqual(written(next), [`${all[5]} end place`, `${all[2]} ring`]);
    next.result(5, "restored", {});
    assert.equal(next.failure(5, "open", { name: "c", ...WRITER }), "IN_USE");
    assert.equal(next.result(5, "open", { name: "c", ...READER }).place, 1);
  });

  it("refuses other files, too many and too few", () => {
    create();
    const reader = open(2);
    const observer = open(3, OBSERVER);
    const next = nextHub();
    next.resumed(5, sessionOf(1001), peerOf(1001));
    next.resumed(6, sessionOf(1002), peerOf(1002));
    next.resumed(7, sessionOf(1003), peerOf(1003));
    const [otherPage, readOnly] = [brought(next, fds), brought(next, fds, false)];
    next.facts.set(
      otherPage[5] as number,
      { ...(rig.facts.get(page(1)) as object), inode: "9:9" } as never,
    );
    for (const all of [otherPage, readOnly]) {
      assert.equal(next.failure(5, "restore", { lease: writerLease }, all), "INVALID_DESCRIPTOR");
    }
    assert.equal(
      next.failure(5, "restore", { lease: writerLease }, brought(next, partsOf(0))),
      "INVALID_MESSAGE",
    );
    assert.equal(
      next.failure(6, "restore", { lease: reader.lease }, brought(next, fds)),
      "INVALID_MESSAGE",
    );
    assert.equal(
      next.failure(6, "restore", { lease: reader.lease }, brought(next, partsOf(1))),
      "INVALID_DESCRIPTOR",
    );
    const noBell = brought(next, partsOf(0));
    next.bells.delete(noBell[4] as number);
    assert.equal(next.failure(6, "restore", { lease: reader.lease }, noBell), "INVALID_DESCRIPTOR");
    assert.equal(
      next.failure(7, "restore", { lease: observer.lease }, [next.fd()]),
      "INVALID_MESSAGE",
    );
    next.result(7, "restore", { lease: observer.lease });
    assert.deepEqual(written(next), []);
    assert.equal(next.open.size, 0);
  });

  for (const order of ["before", "after"] as const) {
    it(`ends for a reader if the writer dies ${order} the reader has reconnected`, () => {
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

  it("keeps no descriptors of a dead reader or a closed hub", () => {
    create();
    const [reader, other] = [open(2), open(3)];
    const next = nextHub();
    next.resumed(6, sessionOf(1002), peerOf(1002));
    next.resumed(7, sessionOf(1003), peerOf(1003));
    next.result(6, "restore", { lease: reader.lease }, brought(next, partsOf(0)));
    next.result(6, "restore", { lease: reader.lease }, brought(next, partsOf(0)));
    next.result(7, "restore", { lease: other.lease }, brought(next, partsOf(1)));
    assert.equal(next.open.size, 4, "the control file and the bell of each");
    next.core.processEnded(6);
    assert.equal(next.open.size, 2);
    next.core.close();
    assert.equal(next.open.size, 0);
  });

  it("frees seats and ends a gone writer if its memory was kept", () => {
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

  it("reads a journal without roles and seats", () => {
    const old = { t: "lease", id: 3, object: 1, session: 2, kind: "read", sinceMs: 5 } as const;
    create();
    open(2);
    const text = JSON.stringify(rig.records);
    assert.match(text, /"role":"reader","place":0/);
    const state = replay([...rig.records, { ...old, object, session: sessionOf(1002) }]);
    assert.equal(state.leases.get(3)?.role, undefined);
  });
});
