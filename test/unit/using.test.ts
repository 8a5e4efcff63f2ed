import assert from "node:assert/strict";
import { describe, it } from "node:test";

describe("a loop whose rounds own resources", () => {
  it("throws the error of a round only in that round", () => {
    const thrown: string[] = [];
    for (let round = 0; round < 3; round += 1) {
      try {
        using _owned = { [Symbol.dispose]() {} };
        if (round === 0) throw new Error("of round 0");
      } catch (error) {
        thrown.push(`${round}: ${error}`);
      }
    }
    assert.deepEqual(thrown, ["0: Error: of round 0"]);
  });
});
