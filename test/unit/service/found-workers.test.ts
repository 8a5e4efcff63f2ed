import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { FoundWorkers } from "../../../src/service/found-workers.js";

describe("the order of offers", () => {
  it("lets users take turns, and comes to refused workers last", () => {
    const found = new FoundWorkers("/hub.sock");
    found.refused("a1", new Error("silent"));
    found.refused("c1", new Error("silent"));
    const offers = ["a1", "a2", "a3", "b1", "c1"].map((worker) => ({ worker, name: worker }));
    const order = found.bestFirst(offers, ({ worker }) => worker.charCodeAt(0));
    assert.deepEqual(
      order.map(({ worker }) => worker),
      ["b1", "a2", "a3", "a1", "c1"],
    );
  });
});
