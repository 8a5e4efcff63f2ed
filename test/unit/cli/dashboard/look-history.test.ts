import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { LookHistory } from "../../../../src/cli/dashboard/look-history.js";

function look(history: LookHistory, atMs: number, values: Record<string, number>): void {
  history.begin(atMs);
  for (const [name, value] of Object.entries(values)) history.put(name, value);
}

describe("LookHistory", () => {
  it("keeps the latest looks, and null where a line has no value", () => {
    const history = new LookHistory({ looksMax: 3 });
    assert.deepEqual(history.agesMs(), []);
    assert.deepEqual(history.values("a"), []);
    look(history, 1000, { a: 1, c: 7 });
    look(history, 2000, { b: 5 });
    assert.deepEqual(history.values("a"), [1, null]);
    look(history, 3000, { a: 3, c: 8 });
    look(history, 4500, { a: 1 / 3 });
    assert.deepEqual(history.agesMs(), [2500, 1500, 0]);
    assert.deepEqual(history.values("a"), [null, 3, 0.3333]);
    assert.deepEqual(history.values("b"), [5, null, null]);
    assert.deepEqual(history.values("c"), [null, 8, null], "the first value is no value of now");
    assert.deepEqual(history.values("other"), [null, null, null]);
  });

  it("keeps five minutes of looks, one a second", () => {
    const history = new LookHistory();
    for (let second = 0; second < 400; second += 1) {
      history.begin(second * 1000);
      history.put("a", second);
    }
    assert.deepEqual([history.agesMs().length, history.agesMs()[0]], [300, 299_000]);
    assert.deepEqual([history.values("a").length, history.values("a")[0]], [300, 100]);
  });

  it("forgets a line whose values are all gone, which makes room for another", () => {
    const history = new LookHistory({ looksMax: 2, linesMax: 1 });
    look(history, 1, { a: 1, b: 2 });
    assert.deepEqual(history.values("b"), [null], "there is no room");
    look(history, 2, {});
    look(history, 3, { b: 4 });
    assert.deepEqual(history.values("a"), [null, null]);
    assert.deepEqual(history.values("b"), [null, 4]);
  });

  it("leaves a gap for what is not known", () => {
    const history = new LookHistory();
    history.begin(1);
    history.put("a", undefined);
    assert.deepEqual(history.values("a"), [null]);
  });
});
