/** A bridge that carries a channel whose writer never stops changing its words serves all others. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import { TwoMachines } from "../../support/machines/two-machines.js";

const NEVER_STILL = new URL("../channels/actors/never-still.js", import.meta.url);
/** As many as wait for one after another, while the writer goes on. */
const NAMES = ["a", "b", "c"];

describe("a bridge that carries a channel of a writer that never stops changing its words", {
  skip: skipWithoutEngines,
}, () => {
  it("answers, and copies what other machines ask for", async () => {
    await using site = await TwoMachines.start();
    const { one, hubOfOne, hubOfOther } = site;
    await using writer = new Actor(NEVER_STILL, { args: [one.hub.socket, "restless"] });
    assert.equal(await writer.says(), "created");
    const reading = { machine: "any", timeoutMs: 60_000 } as const;
    using reader = await hubOfOther.openChannel("restless", reading);
    writer.goOn();
    assert.equal(await writer.says(), "spins");
    for (const name of NAMES) {
      await assert.rejects(reader.next({ timeoutMs: 100 }), { code: "TIMEOUT" });
      const { channels } = await one.status();
      assert.deepEqual(
        channels.map((it) => [it.name, it.direction]),
        [["restless", "out"]],
      );
      using _original = await hubOfOne.put(name, Uint8Array.of(1, 2, 3));
      using copy = await hubOfOther.open(name, { from: "any", dtype: "uint8", timeoutMs: 60_000 });
      assert.deepEqual([...(await copy.read())], [1, 2, 3]);
    }
  });
});
