import assert from "node:assert/strict";
import { describe, it } from "node:test";
import { Looking } from "../../../src/bridge/local-names.js";

const PAUSE_MS_MAX = 10_000;

describe("Looking", () => {
  it("soon looks again after a look that waited for NATS", async (t) => {
    const waitMs = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms));
    const realWait = waitMs(600);
    t.mock.timers.enable({ apis: ["setTimeout"] });
    let looks = 0;
    const looking = new Looking(async () => {
      looks += 1;
      if (looks === 1) await realWait;
    });
    looking.now();
    await realWait;
    await new Promise(setImmediate);
    t.mock.timers.tick(PAUSE_MS_MAX);
    assert.equal(looks, 2);
    await looking.close();
  });

  it("looks more rarely if a look takes much of the CPU, but not more rarely than every 10 s", async (t) => {
    t.mock.timers.enable({ apis: ["setTimeout"] });
    let looks = 0;
    const looking = new Looking(async () => {
      looks += 1;
      const start = process.cpuUsage();
      const used = () => process.cpuUsage(start).user + process.cpuUsage(start).system;
      while (used() < 200_000);
    });
    looking.now();
    await new Promise(setImmediate);
    t.mock.timers.tick(3900);
    assert.equal(looks, 1);
    t.mock.timers.tick(PAUSE_MS_MAX - 3900);
    assert.equal(looks, 2);
    await looking.close();
  });
});
