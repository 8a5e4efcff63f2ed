import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { SortedNames } from "../../../src/hub/sorted-names.js";

function namesOf(...added: readonly string[]): SortedNames {
  const names = new SortedNames();
  for (const name of added) names.add(name);
  return names;
}

describe("sorted names", () => {
  it("come in the order of their code units, however they were added", () => {
    assert.deepEqual([...namesOf("b", "a", "B", "ab", "_").after(undefined)], ["B", "_", "a", "ab", "b"]);
  });

  it("begin after a name, whether it is there or not", () => {
    const names = namesOf("a", "c", "e");
    assert.deepEqual(
      [..."abcdef"].map((after) => [...names.after(after)].join("")),
      ["ce", "ce", "e", "e", "", ""],
    );
  });

  it("begin with names in any order", () => {
    const names = SortedNames.of(new Set(["b", "a", "B", "ab", "_"]));
    names.add("aa");
    assert.deepEqual([...names.after(undefined)], ["B", "_", "a", "aa", "ab", "b"]);
  });

  it("lose what is deleted, and nothing else", () => {
    const names = namesOf("a", "b", "c");
    names.delete("b");
    names.delete("bb");
    assert.deepEqual([...names.after(undefined)], ["a", "c"]);
    names.clear();
    assert.deepEqual([...names.after(undefined)], []);
  });
});
