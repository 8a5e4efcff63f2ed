import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { connect } from "../../../../src/client/connect.js";
import { checkLeaks } from "../../../support/leak-check.js";
import { results } from "../../../support/messages.js";
import { obliging, ScriptedHub } from "../../../support/scripted-hub.js";
import { TestFolder } from "../../../support/test-folder.js";

describe("put() that is aborted while the hub publishes", () => {
  checkLeaks();

  it("takes back its own object only, whatever has the name by then", async () => {
    using folder = new TestFolder();
    const create = () => ({ object: 1, lease: 601 });
    const inspect = () => results.inspect[0];
    using scripted = new ScriptedHub(
      folder.socket,
      obliging({ create, inspect, publish: () => undefined }),
    );
    await using hub = await connect({ socket: folder.socket, start: false, device: "host" });
    const aborted = new AbortController();
    const putting = hub.put("frame", new Uint8Array(4), { signal: aborted.signal });
    await scripted.heard("publish");
    aborted.abort();
    await assert.rejects(putting, { code: "ABORTED" });
    const { name, object } = await scripted.heard("remove");
    assert.deepEqual({ name, object }, { name: "frame", object: 1 });
  });
});
