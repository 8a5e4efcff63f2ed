/**
 * A bridge dies or stands still between any two steps of a fetch, a carried channel and a request
 * to a service. Whatever comes of it: each wait ends in time or goes on, nothing is left, and the
 * next attempt succeeds.
 */
import assert from "node:assert/strict";
import { after, before, describe, it } from "node:test";
import type { BridgeOrder } from "../../support/machines/bridge-orders.js";
import { skipWithoutEngines } from "../../support/machines/engines.js";
import type { TestMachine } from "../../support/machines/test-machine.js";
import { soon } from "../../support/until.js";
import { isEnd, WAIT_MS, type Work, WorksRig, works } from "./works-rig.js";

type Signal = BridgeOrder["signal"];

/** Every step in the nightly run; otherwise the ones at which something has just begun. */
const isNightly = process.env.NIGHTLY === "1";
const USUAL: Readonly<Record<Signal, readonly number[]>> = { SIGKILL: [4], SIGSTOP: [6] };
const STEPS_MAX = 60;

describe("two bridges", { skip: skipWithoutEngines }, () => {
  let rig: WorksRig;

  before(async () => {
    rig = await WorksRig.start();
  });
  after(() => rig?.[Symbol.asyncDispose]());

  for (const [what, work] of Object.entries(works))
    for (const side of ["one", "other"] as const)
      for (const signal of ["SIGKILL", "SIGSTOP"] as const)
        it(`go on with ${what} after a ${signal} of the bridge of machine "${side}"`, async (t) => {
          const steps = isNightly
            ? Array.from({ length: STEPS_MAX }, (_, i) => i + 1)
            : USUAL[signal];
          for (const at of steps) {
            const step = await hit(rig.site[side], { signal, at }, work);
            if (step === undefined) {
              assert.ok(isNightly, `${what} has only ${at - 1} steps`);
              return t.diagnostic(`${at - 1} steps`);
            }
            t.diagnostic(`${at}: ${step}`);
          }
          assert.ok(!isNightly, `${what} has more than ${STEPS_MAX} steps`);
        });

  /** @returns the step at which it was hit; undefined if the work has fewer steps */
  async function hit(
    machine: TestMachine,
    order: BridgeOrder,
    work: Work,
  ): Promise<string | undefined> {
    machine.order(order);
    const outcome = await soon(
      `the work ends (${order.signal} at step ${order.at})`,
      Promise.allSettled([work(rig.site)]),
      4 * WAIT_MS,
    );
    const reached = await machine.recall();
    const where = `${order.signal} at step ${order.at}, ${reached}`;
    if (outcome[0].status === "rejected") {
      const { reason } = outcome[0];
      assert.ok(reached !== undefined && isEnd(reason), `${where}: ${reason}`);
    }
    if (order.signal === "SIGSTOP") {
      if (reached !== undefined) await machine.untilStopped();
      machine.signalBridge("SIGCONT");
    } else if (reached !== undefined) {
      await machine.bridgeEnded();
      machine.startBridge();
      await machine.bridged();
    }
    await rig.worksAgain(work, where);
    return reached;
  }
});
