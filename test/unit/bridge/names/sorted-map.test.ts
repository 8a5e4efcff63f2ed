import assert from "node:assert/strict";
import { describe, it } from "node:test";
import fc from "fast-check";
import { SortedMap } from "../../../../src/bridge/names/sorted-map.js";

const key = fc.constantFrom("a", "b", "b.c", "ba", "c", "d", "~");
const step = fc.oneof(
  fc.record({ do: fc.constant("set" as const), key, value: fc.integer() }),
  fc.record({ do: fc.constant("delete" as const), key }),
  fc.record({ do: fc.constant("after" as const), key: fc.option(key, { nil: undefined }) }),
);

describe("SortedMap", () => {
  it("answers as if it were sorted for each answer", () => {
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const map = new SortedMap<number>();
        const model = new Map<string, number>();
        for (const it of steps) {
          if (it.do === "set") {
            map.set(it.key, it.value);
            model.set(it.key, it.value);
          } else if (it.do === "delete") {
            assert.equal(map.delete(it.key), model.delete(it.key));
          } else {
            const { key: from } = it;
            const keys = [...model.keys()].filter((found) => from === undefined || found > from);
            const wanted = keys.sort().map((found) => model.get(found));
            assert.deepEqual([...map.after(from)], wanted);
          }
        }
      }),
      { numRuns: 500 },
    );
  });

  it("sorts for a page only if keys have come since the last one", () => {
    const map = new SortedMap<number>();
    for (let at = 0; at < 1000; at += 1) map.set(`key ${at}`, at);
    const page = (from?: string) => map.after(from).next().value;
    const { sort } = Array.prototype;
    let sorts = 0;
    Array.prototype.sort = function counted(...given) {
      sorts += 1;
      return sort.apply(this, given);
    };
    try {
      assert.equal(page(), 0);
      for (const from of ["key 1", "key 5", "key 9"]) assert.equal(typeof page(from), "number");
      assert.equal(sorts, 1);
      map.set("key", -1);
      assert.equal(page(), -1);
      assert.equal(sorts, 2);
    } finally {
      Array.prototype.sort = sort;
    }
  });
});
