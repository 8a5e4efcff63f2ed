import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SortedNames, VisibleNames } from "../../../../src/hub/objects/visible-names.js";
import type { Sharing } from "../../../../src/wire/messages.js";
import { peerOf } from "../../../support/core-rig.js";

function object(name: string, uid: number, sharedWith: Sharing["with"] = "private") {
  return {
    name,
    owner: { uid, gid: uid * 10 },
    sharing: { with: sharedWith, access: "read" as const },
  };
}

function namesOf(...objects: readonly ReturnType<typeof object>[]): VisibleNames {
  const names = new VisibleNames();
  for (const one of objects) names.add(one);
  return names;
}

function sortedNames(...added: readonly string[]): SortedNames {
  const names = new SortedNames();
  for (const name of added) names.add(name);
  return names;
}

const asUser = (uid: number, ...groups: number[]) => peerOf(1, { uid, gid: uid * 10, groups });

describe("visible names", () => {
  it("are the user's own and those shared with the user, each once and in order", () => {
    const names = namesOf(
      object("e", 1),
      object("a", 2),
      object("d", 2, "all"),
      object("b", 1, "all"),
      object("c", 2, "group"),
      object("f", 3, "group"),
    );
    const seenBy = (uid: number, ...groups: number[]) =>
      [...names.after(asUser(uid, ...groups), undefined)].join("");
    assert.deepEqual([seenBy(1), seenBy(2), seenBy(3)], ["bde", "abcd", "bdf"]);
    assert.deepEqual([seenBy(1, 10, 20, 20), seenBy(0)], ["bcde", "abcdef"]);
  });

  it("start after any name, even an invisible one, and lose deleted names", () => {
    const names = namesOf(object("a", 1), object("b", 2), object("c", 1, "all"), object("d", 1));
    assert.deepEqual([...names.after(asUser(1), "b")], ["c", "d"]);
    names.delete(object("c", 1, "all"));
    assert.deepEqual([...names.after(asUser(1), "a")], ["d"]);
    assert.deepEqual([...names.after(asUser(2), undefined)], ["b"]);
  });
});

describe("sorted names", () => {
  it("come in the order of their code units", () => {
    assert.deepEqual(
      [...sortedNames("b", "a", "B", "ab", "_").after(undefined)],
      ["B", "_", "a", "ab", "b"],
    );
  });

  it("start after a name, whether it exists or not", () => {
    const names = sortedNames("a", "c", "e");
    assert.deepEqual(
      [..."abcdef"].map((after) => [...names.after(after)].join("")),
      ["ce", "ce", "e", "e", "", ""],
    );
  });

  it("can be made from names in any order", () => {
    const names = SortedNames.of(new Set(["b", "a", "B", "ab", "_"]));
    names.add("aa");
    assert.deepEqual([...names.after(undefined)], ["B", "_", "a", "aa", "ab", "b"]);
  });

  it("lose only deleted names", () => {
    const names = sortedNames("a", "b", "c");
    names.delete("b");
    names.delete("bb");
    assert.deepEqual([...names.after(undefined)], ["a", "c"]);
    names.clear();
    assert.deepEqual([...names.after(undefined)], []);
  });
});
