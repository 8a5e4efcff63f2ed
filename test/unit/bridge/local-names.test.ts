import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { announcedOf } from "../../../src/bridge/local-names.js";
import type { ObjectSummary } from "../../../src/wire/messages.js";
import {
  channelContent,
  channelOf,
  hostArray,
  timelineDescriptor,
} from "../../support/messages.js";

const BRIDGE = 1000;
const OTHER = 1001;

const own: ObjectSummary = {
  name: "frame",
  object: 1,
  published: true,
  lifetime: "held",
  sharing: { with: "private", access: "read" },
  leases: 1,
  ownerPid: 7,
  ownerUid: BRIDGE,
  hasMemory: true,
  createdAtMs: 1,
  unheldSinceMs: null,
  descriptor: hostArray,
};
const wished = { with: "private", access: "read", machines: true } as const;
const forGroup = { with: "group", access: "read" } as const;

function announced(
  objects: readonly Partial<ObjectSummary>[],
  pattern: RegExp = /^$/,
  workers = [BRIDGE],
) {
  const all = objects.map((it) => ({ ...own, ...it }));
  const isAnnounced = (name: string) => pattern.test(name);
  const rule = { isAnnounced, uid: BRIDGE, workers: new Set(workers) };
  const { names, services } = announcedOf(all, "one", rule);
  return { names: [...names.keys()], services: [...services.keys()] };
}

describe("what a bridge announces", () => {
  it("is what an owner wishes, or what matches the pattern of the bridge's user", () => {
    assert.deepEqual(announced([{}]).names, []);
    assert.deepEqual(announced([{}], /frame/).names, ["frame"]);
    assert.deepEqual(announced([{ sharing: wished }]).names, ["frame"]);
    assert.deepEqual(announced([{ sharing: { ...wished, machines: false } }]).names, []);
  });

  it("has a private object of another user only by that user's wish", () => {
    const ownerUid = OTHER;
    assert.deepEqual(announced([{ ownerUid }], /./).names, []);
    assert.deepEqual(announced([{ ownerUid, sharing: forGroup }], /./).names, ["frame"]);
    assert.deepEqual(announced([{ ownerUid, sharing: wished }]).names, ["frame"]);
  });

  it("has no copies, timelines, unpublished objects or objects without memory", () => {
    const replicaOf = { machine: "other", object: 5 };
    const descriptor = { ...hostArray, replicaOf };
    const objects = [
      { descriptor },
      { descriptor: timelineDescriptor },
      { published: false },
      { hasMemory: false },
    ];
    assert.deepEqual(announced(objects, /./).names, []);
  });

  it("has the user of each name and service", () => {
    const descriptor = channelOf(channelContent);
    const objects = [
      { name: "frame" },
      { name: "grid", ownerUid: OTHER, sharing: forGroup },
      { name: "double:wab1:0", ownerUid: OTHER, sharing: forGroup, descriptor },
    ].map((it) => ({ ...own, ...it }));
    const rule = { isAnnounced: () => true, uid: BRIDGE, workers: new Set([BRIDGE, OTHER]) };
    const { nameOwners, services } = announcedOf(objects, "one", rule);
    assert.deepEqual(
      [...nameOwners],
      [
        ["frame", BRIDGE],
        ["grid", OTHER],
      ],
    );
    assert.deepEqual([...services], [["double", OTHER]]);
  });

  it("has services instead of the channels of their links", () => {
    const descriptor = channelOf(channelContent);
    const objects = [
      { name: "double:wab1:0", descriptor },
      { name: "double:wab1:1", descriptor },
      { name: "double:wab1:1:req", descriptor },
      { name: "triple:wab2:0", descriptor, sharing: wished },
      { name: "other:wab3:0:req", descriptor, sharing: wished },
      { name: "frames", descriptor },
      // An array may have such a name.
      { name: "layer:w1:0", descriptor: hostArray, sharing: wished },
    ];
    assert.deepEqual(announced(objects, /^(double|frames)$/), {
      names: ["frames", "layer:w1:0"],
      services: ["double", "triple"],
    });
  });

  it("has services of those users alone whose workers it may claim", () => {
    const sharing = { ...wished, with: "all" } as const;
    const offer = { name: "double:wab1:0", descriptor: channelOf(channelContent), sharing };
    const objects = [{ ...offer, ownerUid: OTHER }];
    assert.deepEqual(announced(objects, /./).services, []);
    assert.deepEqual(announced(objects, /./, [BRIDGE, OTHER]).services, ["double"]);
    assert.deepEqual(announced([...objects, offer], /./).services, ["double"]);
  });
});
