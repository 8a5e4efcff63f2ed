import assert from "node:assert/strict";
import { describe, it, type TestContext } from "node:test";
import { defaults } from "../../../src/base/limits.js";
import { Looking } from "../../../src/bridge/looking.js";

const RETRY_MS = 1000;
const PAUSE_MS_MAX = 10_000;

interface Rig {
  looks: number;
  position: number;
  /** CPU time of the process. */
  cpuMs: number;
  readonly waiting: { readonly since: number; readonly resolve: (position: number) => void }[];
  readonly looking: Looking;
  /** Lets time pass, and all that follows from it. */
  pass(ms: number): Promise<void>;
}

/** A hub whose position a test changes, and a look that does what the test says. */
function looking(t: TestContext, look: () => unknown = () => true): Rig {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  const rig: Rig = {
    looks: 0,
    position: 5,
    cpuMs: 0,
    waiting: [],
    looking: new Looking({
      look: async () => {
        rig.looks += 1;
        return (await look()) !== false;
      },
      changed: async (since, signal) => {
        if (since === undefined || since < rig.position) return rig.position;
        return new Promise((resolve, reject) => {
          rig.waiting.push({ since, resolve });
          signal.addEventListener("abort", () => reject(signal.reason));
        });
      },
    }),
    pass: async (ms: number) => {
      t.mock.timers.tick(ms);
      await new Promise(setImmediate);
    },
  };
  t.mock.method(process, "cpuUsage", (since = { user: 0, system: 0 }) => ({
    user: rig.cpuMs * 1000 - since.user,
    system: 0,
  }));
  return rig;
}

describe("Looking", () => {
  it("looks again when the hub tells of a change, and not while it does not", async (t) => {
    const rig = looking(t);
    rig.looking.now();
    await rig.pass(0);
    await rig.pass(defaults.bridgeLookMs);
    assert.deepEqual([rig.looks, rig.waiting.map(({ since }) => since)], [1, [5]]);
    await rig.pass(PAUSE_MS_MAX - 1);
    assert.equal(rig.looks, 1);
    rig.position += 1;
    rig.waiting[0]?.resolve(5);
    await rig.pass(0);
    assert.equal(rig.looks, 2);
    await rig.looking.close();
  });

  it("looks again for a change during the look", async (t) => {
    const rig = looking(t, () => {
      if (rig.looks === 1) rig.position += 1;
    });
    rig.looking.now();
    await rig.pass(0);
    await rig.pass(defaults.bridgeLookMs - 1);
    assert.equal(rig.looks, 1);
    await rig.pass(1);
    assert.equal(rig.looks, 2);
    await rig.looking.close();
  });

  it("looks soon if NATS tells of a change, but not right after a look", async (t) => {
    const rig = looking(t);
    rig.looking.now();
    await rig.pass(0);
    rig.looking.soon();
    await rig.pass(defaults.bridgeLookMs - 1);
    assert.equal(rig.looks, 1);
    await rig.pass(1);
    assert.equal(rig.looks, 2);
    await rig.pass(defaults.bridgeLookMs);
    assert.equal(rig.looks, 2);
    rig.looking.soon();
    await rig.pass(0);
    assert.equal(rig.looks, 3);
    await rig.looking.close();
  });

  it("looks at once when it is told to, and again if that was during a look", async (t) => {
    const rig = looking(t, () => {
      if (rig.looks === 1) rig.looking.now();
    });
    rig.looking.now();
    await rig.pass(0);
    assert.equal(rig.looks, 2);
    rig.looking.now();
    await rig.pass(0);
    assert.equal(rig.looks, 3);
    await rig.looking.close();
  });

  it("looks again every 10 s in any case, and every second if something is left", async (t) => {
    const rig = looking(t, () => rig.looks > 1);
    rig.looking.now();
    await rig.pass(0);
    await rig.pass(RETRY_MS - 1);
    assert.equal(rig.looks, 1);
    await rig.pass(1);
    assert.equal(rig.looks, 2);
    await rig.pass(defaults.bridgeLookMs);
    await rig.pass(PAUSE_MS_MAX);
    assert.equal(rig.looks, 3);
    await rig.pass(defaults.bridgeLookMs);
    await rig.pass(PAUSE_MS_MAX - 1);
    assert.equal(rig.looks, 3, "the end of a wait was taken for a change");
    await rig.looking.close();
  });

  it("soon looks again after a look that waited for NATS", async (t) => {
    const realWait = new Promise((resolve) => setTimeout(resolve, 600));
    const rig = looking(t, async () => {
      if (rig.looks === 1) await realWait;
      return false;
    });
    rig.looking.now();
    await realWait;
    await rig.pass(0);
    await rig.pass(RETRY_MS);
    assert.equal(rig.looks, 2);
    await rig.looking.close();
  });

  it("looks more rarely if a look takes much of the CPU, but at least every 10 s", async (t) => {
    const rig = looking(t, () => {
      rig.cpuMs += rig.looks === 1 ? 200 : 10_000;
      rig.position += 1;
    });
    rig.looking.now();
    await rig.pass(0);
    await rig.pass(3999);
    assert.equal(rig.looks, 1);
    await rig.pass(1);
    assert.equal(rig.looks, 2);
    await rig.pass(PAUSE_MS_MAX - 1);
    assert.equal(rig.looks, 2);
    await rig.pass(1);
    assert.equal(rig.looks, 3);
    await rig.looking.close();
  });

  it("ends while it waits for a change", async (t) => {
    const rig = looking(t);
    rig.looking.now();
    await rig.pass(0);
    await rig.pass(defaults.bridgeLookMs);
    await rig.looking.close();
    rig.looking.now();
    assert.equal(rig.looks, 1);
  });
});
