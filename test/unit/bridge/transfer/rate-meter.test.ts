import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { RateMeter } from "../../../../src/bridge/transfer/rate-meter.js";

describe("RateMeter", () => {
  it("has no rate before bytes come, and never divides by zero", () => {
    const meter = new RateMeter(1000);
    assert.equal(meter.perSecond(1000), 0);
    assert.equal(meter.perSecond(2000), 0);
    meter.add(1000, 5);
    assert.equal(meter.perSecond(1000), 0);
  });

  it("counts what came since the start, if that was not long ago", () => {
    const meter = new RateMeter(0);
    meter.add(500, 1000);
    assert.equal(meter.perSecond(1000), 1000);
  });

  it("follows the last three seconds, and is 0 after three without bytes", () => {
    const meter = new RateMeter(0);
    for (let second = 1; second <= 60; second += 1) meter.add(second * 1000, second * 100);
    assert.equal(meter.perSecond(60_000), 100);
    for (let second = 61; second <= 70; second += 1)
      meter.add(second * 1000, 6000 + (second - 60) * 9000);
    assert.equal(meter.perSecond(70_000), 9000);
    assert.equal(meter.perSecond(73_000), 0);
  });

  it("does not count bytes twice that come in many small pieces", () => {
    const meter = new RateMeter(0);
    for (let ms = 1; ms <= 10_000; ms += 1) meter.add(ms, ms);
    assert.equal(Math.round(meter.perSecond(10_000) / 100), 10);
  });
});
