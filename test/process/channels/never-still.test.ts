/** A writer that is a process of its own never stops changing the words of its channel. */
import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";
import { TestHub } from "../../support/test-hub.js";

const NEVER_STILL = new URL("./actors/never-still.js", import.meta.url);
const WAITS = new URL("./actors/waits-for-next.js", import.meta.url);

describe("a reader beside a writer that never stops changing its words", () => {
  checkLeaks();

  it("ends next() with TIMEOUT, and hears SIGTERM", async () => {
    await using hub = await TestHub.start();
    const args = [hub.socket, "restless"];
    await using writer = new Actor(NEVER_STILL, { args });
    assert.equal(await writer.says(), "created");
    await using reader = new Actor(WAITS, { args });
    assert.equal(await reader.says(), "opened");
    writer.goOn();
    assert.equal(await writer.says(), "spins");
    reader.goOn();
    assert.equal(await reader.says(), "TIMEOUT");
    assert.equal(await reader.says(), "waits");
    reader.kill("SIGTERM");
    assert.equal(await reader.says(), "heard");
    assert.equal(await reader.exited(), 0);
  });
});
