/** Kills a keeper or its hub within a step, and waits for the next one. */
import type { Cell } from "./cells.js";
import type { RunResult } from "./promises.js";
import type { CallOutcome } from "./steps.js";
import type { World } from "./world.js";

/**
 * Kills the victim at its system call `at`. For the first call it dies in any case: if the step
 * needs no call of it, then after the step.
 */
export async function hitKeeper(
  world: World,
  { fault }: Cell,
  at: number,
  perform: () => Promise<CallOutcome[]>,
): Promise<RunResult> {
  const kept = await world.keptHub();
  const victim = fault === "SIGKILL of its hub" ? kept.pid : kept.keeperPid;
  using seam = await kept.seam(victim);
  await seam.arm("SIGKILL", at);
  const outcomes = await perform();
  // WHY not its state: a killed process has that of a running one until its files are closed.
  const isThere = (await seam.disarm()) !== undefined;
  if (isThere && at > 1) return { hit: false, outcomes };
  if (isThere) process.kill(victim, "SIGKILL");
  const next = await world.keptHub(victim);
  if (fault === "SIGKILL, then hub restart") {
    await world.bystander.restart();
    await world.keptHub(next.pid);
  } else if (fault === "SIGKILL of its hub") {
    // WHY a new keeper: a keeper waits longer after each hub that ends soon. A new one has seen
    // none.
    process.kill(next.keeperPid, "SIGKILL");
    await world.keptHub(next.keeperPid);
  }
  return { hit: true, outcomes };
}
