import assert from "node:assert/strict";
import { describe, it } from "node:test";
import {
  type HubRecord,
  type HubState,
  recordsOf,
  replay,
} from "../../../../src/hub/restart/hub-records.js";
import { hostArray } from "../../../support/messages.js";

const session = (id: number): HubRecord => ({
  t: "session",
  id,
  pid: 10,
  pidNamespace: 1,
  pidfdInode: null,
  startTicks: 100,
  uid: 500,
  gid: 500,
  groups: [7],
  program: "test",
});
const object = (id: number, name = "frame"): HubRecord => ({
  t: "object",
  id,
  name,
  lifetime: "held",
  sharing: { with: "private", access: "read" },
  descriptor: hostArray,
  createdAtMs: 5,
  owner: { pid: 10, uid: 500, gid: 500 },
  inodes: ["1:2"],
  writable: true,
});
const lease = (id: number, of: number, by: number): HubRecord => ({
  t: "lease",
  id,
  object: of,
  session: by,
  kind: "owner",
  sinceMs: 5,
});
const all: readonly HubRecord[] = [
  session(1),
  object(2),
  lease(3, 2, 1),
  { t: "published", object: 2 },
  { t: "unnamed", object: 2 },
  object(4),
  lease(5, 4, 1),
];

function idsOf(state: HubState): [number[], number[], number[]] {
  return [[...state.sessions.keys()], [...state.objects.keys()], [...state.leases.keys()]];
}

describe("records", () => {
  it("rebuild the state, and the state gives the shortest records", () => {
    const state = replay(all);
    assert.deepEqual(idsOf(state), [[1], [2, 4], [3, 5]]);
    assert.deepEqual(
      [...state.objects.values()].map(({ published, named }) => [published, named]),
      [
        [true, false],
        [false, true],
      ],
    );
    assert.deepEqual(replay(recordsOf(state)), state);
    assert.deepEqual(
      [...recordsOf(state)].map(({ t }) => t),
      ["last-id", "session", "kept", "kept", "leases"],
    );
  });

  it("survive JSON", () => {
    const written = [...recordsOf(replay(all))].map(
      (record) => JSON.parse(JSON.stringify(record)) as HubRecord,
    );
    assert.deepEqual(replay(written), replay(all));
  });

  it("remember the largest number, even of ended objects", () => {
    assert.equal(replay(all).lastId, 5);
    assert.equal(replay([...all, { t: "released", lease: 5 }]).lastId, 5);
    assert.equal(replay([...all, { t: "last-id", id: 77 }]).lastId, 77);
    assert.equal(replay(recordsOf(replay([...all, { t: "last-id", id: 77 }]))).lastId, 77);
    assert.equal(replay([]).lastId, 0);
    assert.deepEqual([...recordsOf(replay([]))], []);
  });

  it("of an end remove everything that depended on it", () => {
    assert.deepEqual(idsOf(replay([...all, { t: "released", lease: 3 }])), [[1], [2, 4], [5]]);
    assert.deepEqual(idsOf(replay([...all, { t: "object-ended", object: 2 }])), [[1], [4], [5]]);
    assert.deepEqual(idsOf(replay([...all, { t: "session-ended", session: 1 }])), [[], [2, 4], []]);
  });

  it("of unknown things change nothing", () => {
    const unknown: readonly HubRecord[] = [
      { t: "published", object: 90 },
      { t: "unnamed", object: 90 },
      { t: "object-ended", object: 90 },
      { t: "released", lease: 90 },
      { t: "session-ended", session: 90 },
      lease(6, 90, 1),
      lease(7, 2, 90),
    ];
    assert.deepEqual(idsOf(replay([...all, ...unknown])), idsOf(replay(all)));
  });

  it("of two objects with one name give the name to the later object", () => {
    const { objects } = replay([session(1), object(2), object(4), lease(3, 2, 1), lease(5, 4, 1)]);
    assert.deepEqual(
      [...objects.values()].map(({ record, named }) => [record.id, named]),
      [
        [2, false],
        [4, true],
      ],
    );
  });
});
