/** Names that begin alike, found among thousands of others. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";

describe("list with a prefix", () => {
  checkLeaks();

  it("lists the names with the prefix, including the prefix itself, from one page or several", async () => {
    await using server = await TestHub.start();
    await using hub = await server.connect();
    const names = ["a", "b", "b.", "b.1", "b.10", "b.2", "b:", "c"];
    const many = Array.from({ length: 300 }, (_, i) => `m${String(i).padStart(4, "0")}`);
    for (const name of [...names, ...many]) await hub.create(name, { dtype: "uint8", shape: [1] });
    const found = async (prefix: string) => (await hub.list({ prefix })).map(({ name }) => name);
    assert.deepEqual(await found("b."), ["b.", "b.1", "b.10", "b.2"]);
    assert.deepEqual(await found("b"), ["b", "b.", "b.1", "b.10", "b.2", "b:"]);
    assert.deepEqual(await found("m"), many);
    assert.deepEqual(await found("m00"), many.slice(0, 100));
    assert.deepEqual(await found("m0299"), ["m0299"]);
    assert.deepEqual(await found("x"), []);
    assert.equal((await hub.list()).length, names.length + many.length);
    await assert.rejects(found(""), { code: "INVALID_NAME" });
  });
});
