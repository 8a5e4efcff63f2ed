import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { VisibleNames } from "../../../src/hub/visible-names.js";
import type { Sharing } from "../../../src/wire/messages.js";
import { peerOf } from "../../support/core-rig.js";

function object(name: string, uid: number, sharedWith: Sharing["with"] = "private") {
  return { name, owner: { uid, gid: uid * 10 }, sharing: { with: sharedWith, access: "read" as const } };
}

function namesOf(...objects: readonly ReturnType<typeof object>[]): VisibleNames {
  const names = new VisibleNames();
  for (const one of objects) names.add(one);
  return names;
}

const asUser = (uid: number, ...groups: number[]) => peerOf(1, { uid, gid: uid * 10, groups });

describe("visible names", () => {
  it("are those of a user's own objects and of those shared with the user, each once and in order", () => {
    const names = namesOf(
      object("e", 1),
      object("a", 2),
      object("d", 2, "all"),
      object("b", 1, "all"),
      object("c", 2, "group"),
      object("f", 3, "group"),
    );
    const seenBy = (uid: number, ...groups: number[]) => [...names.after(asUser(uid, ...groups), undefined)].join("");
    assert.deepEqual([seenBy(1), seenBy(2), seenBy(3)], ["bde", "abcd", "bdf"]);
    assert.deepEqual([seenBy(1, 10, 20, 20), seenBy(0)], ["bcde", "abcdef"]);
  });

  it("begin after a name, also one that may not be seen, and lose what is deleted", () => {
    const names = namesOf(object("a", 1), object("b", 2), object("c", 1, "all"), object("d", 1));
    assert.deepEqual([...names.after(asUser(1), "b")], ["c", "d"]);
    names.delete(object("c", 1, "all"));
    assert.deepEqual([...names.after(asUser(1), "a")], ["d"]);
    assert.deepEqual([...names.after(asUser(2), undefined)], ["b"]);
  });
});
