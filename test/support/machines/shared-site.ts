/**
 * Two machines for the tests of one file, one test after the other, because to start them takes
 * seconds of CPU time. A test may end bridges, kill hubs that have a keeper, and restart NATS.
 */
import { until } from "../until.js";
import type { BridgeLimits, TestMachineOptions } from "./test-machine.js";
import { TwoMachines } from "./two-machines.js";

const LIMITS: BridgeLimits = {
  /** Enough to start a bridge on a busy computer. */
  machineReturnMs: 20_000,
  /** Short, because after each test it passes. Long enough to open on a busy computer. */
  carriedUnreadMs: 5000,
};

/** By default machine "one" announces all that it has. */
export function startShared(ofOne: TestMachineOptions = {}): Promise<TwoMachines> {
  const options = { args: ["--announce", "*"], limits: LIMITS };
  return TwoMachines.start({ ...options, ...ofOne }, { limits: LIMITS });
}

/** Starts what has ended, removes what is left, and forgets what the bridges have said. */
export async function restore({ one, other, hubOfOne, hubOfOther }: TwoMachines): Promise<void> {
  for (const machine of [one, other]) {
    machine.goOn();
    if (!machine.isBridgeRunning) machine.startBridge();
    await machine.bridged();
  }
  // The copies after their originals, or they would be fetched again.
  for (const hub of [hubOfOne, hubOfOther])
    await until("nothing is left", async () => {
      const objects = await hub.list();
      for (const { name } of objects) await hub.remove(name).catch(() => {});
      return objects.length === 0;
    });
  for (const machine of [one, other]) machine.forgetLog();
}
