import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { MessageRate } from "../../../src/hub/message-rate.js";

function send(rate: MessageRate, nowMs: number): number {
  const waitMs = rate.waitMs(nowMs);
  if (waitMs === 0) rate.count();
  return waitMs;
}

describe("a message rate", () => {
  it("lets a second's worth through at once, and then one each time as much has passed", () => {
    const rate = new MessageRate(4);
    assert.deepEqual(
      [0, 0, 0, 0, 0].map((nowMs) => send(rate, nowMs)),
      [0, 0, 0, 0, 250],
    );
    assert.deepEqual(
      [100, 250, 250, 500].map((nowMs) => send(rate, nowMs)),
      [150, 0, 250, 0],
    );
  });

  it("saves up no more than a second's worth", () => {
    const rate = new MessageRate(2);
    assert.deepEqual(
      [60_000, 60_000, 60_000].map((nowMs) => send(rate, nowMs)),
      [0, 0, 500],
    );
  });

  it("does not charge who is refused", () => {
    const rate = new MessageRate(1);
    send(rate, 0);
    for (let i = 0; i < 1000; i += 1) assert.equal(send(rate, 0), 1000);
    assert.equal(send(rate, 1000), 0);
  });

  it("gives nothing for a clock that goes back", () => {
    const rate = new MessageRate(1);
    assert.equal(send(rate, 5000), 0);
    assert.equal(send(rate, 4000), 1000);
    assert.equal(send(rate, 5500), 500);
  });

  it("can be without limit", () => {
    const rate = new MessageRate(Number.POSITIVE_INFINITY);
    for (let i = 0; i < 100; i += 1) assert.equal(send(rate, 0), 0);
  });
});
