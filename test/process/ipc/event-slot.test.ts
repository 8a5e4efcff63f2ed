import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { hasCode } from "../../../src/base/errors.js";
import { createHostDriver } from "../../../src/driver/host/host-driver.js";
import { Actor } from "../../support/actor.js";
import { checkLeaks } from "../../support/leak-check.js";

const stale = (error: unknown) => hasCode(error, "STALE_HANDLE");

describe("an event of the host driver whose exporter destroyed it", () => {
  checkLeaks();

  it("is not confused with the next event in its slot", async () => {
    await using actor = new Actor(new URL("./actors/reuses-slot.js", import.meta.url));
    const driver = createHostDriver();
    const first = Buffer.from(String(await actor.says()), "base64");
    const imported = driver.importEvent(0, first);
    assert.equal(driver.isEventDone(imported), true);
    actor.goOn();
    const second = Buffer.from(String(await actor.says()), "base64");
    assert.deepEqual(
      second.subarray(0, 32),
      first.subarray(0, 32),
      "the same slot of the same file",
    );
    assert.throws(() => driver.isEventDone(imported), stale);
    assert.throws(() => driver.importEvent(0, first), stale);
    driver.destroyEvent(driver.importEvent(0, second));
    driver.destroyEvent(imported);
    assert.throws(() => driver.importEvent(0, first), stale);
    driver.close();
  });
});
