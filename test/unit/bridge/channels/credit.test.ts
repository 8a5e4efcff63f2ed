import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Credit } from "../../../../src/bridge/channels/credit.js";

describe("Credit", () => {
  it("is taken one at a time, and waits for more", async () => {
    const credit = new Credit(1, 8);
    assert.ok(credit.tryTake());
    assert.equal(credit.tryTake(), false);
    const waiting = credit.take();
    credit.add(2);
    await waiting;
    assert.ok(credit.tryTake());
    assert.equal(credit.tryTake(), false);
  });

  it("is never more than the most", () => {
    const credit = new Credit(6, 8);
    credit.add(2);
    assert.throws(() => credit.add(1), { code: "LIMIT_EXCEEDED" });
  });

  it("ends a wait when it is closed, also before the wait", async () => {
    const credit = new Credit(0, 8);
    const waiting = credit.take();
    credit.close();
    await assert.rejects(waiting, { code: "CLOSED" });
    await assert.rejects(credit.take(), { code: "CLOSED" });
  });
});
