/** What pages ask of objects, without a browser: one thing at a time, and not too many. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { ObjectActions } from "../../../src/cli/dashboard/object-actions.js";
import { CliRig } from "./cli-rig.js";

const { signal } = new AbortController();

describe("what a page asks of an object", () => {
  it("is done one after the other, and refused if too much waits", async () => {
    await using rig = await CliRig.open();
    await using hub = await rig.join();
    using array = await hub.create("large", { dtype: "uint8", shape: [2 ** 25] });
    await array.publish();
    const [{ object: id } = { object: 0 }] = await hub.list();
    await using actions = new ObjectActions(rig.socket);
    const query = (more = "") => new URLSearchParams(`name=large&id=${id}${more}`);
    const done: string[] = [];
    const asked = [actions.values(query("&all=1"), signal).finally(() => done.push("values"))];
    for (let i = 0; i < 9; i += 1)
      asked.push(actions.facts(query(), signal).finally(() => done.push("facts")));
    const statuses = (await Promise.all(asked)).map(({ status }) => status);
    assert.deepEqual(statuses, [...Array(8).fill(200), 503, 503]);
    // The two that were refused did not wait.
    assert.deepEqual(done.slice(0, 3), ["facts", "facts", "values"]);
  });
});
