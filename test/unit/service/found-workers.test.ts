import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { CudaIpcError } from "../../../src/base/errors.js";
import { FoundWorkers } from "../../../src/service/found-workers.js";

describe("the reason why a worker could not be used", () => {
  it("stays if its offer is found claimed, perhaps by this client", () => {
    const found = new FoundWorkers("/hub.sock");
    found.refused("a1", new CudaIpcError("TIMEOUT", "it has sent no hello"));
    found.refused("a1", new CudaIpcError("READERS_FULL", "another client has claimed it"));
    assert.match(found.timedOut("request", 1).message, /TIMEOUT: it has sent no hello/);
    found.usable("a1");
    found.refused("a1", new CudaIpcError("READERS_FULL", "another client has claimed it"));
    assert.match(found.timedOut("request", 1).message, /another client has claimed it/);
  });
});

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
