/**
 * How each fault happens: within the victim's system calls, or from outside while another party is
 * stopped.
 */

import { until } from "../until.js";
import type { Fault, PartyFault } from "./cells.js";
import type { SeamAction } from "./fault-seam.js";
import type { Party } from "./party.js";

/** What the process does to itself at a call; undefined if the test does it from outside. */
const actionOf: Readonly<Record<PartyFault, SeamAction | undefined>> = {
  SIGKILL: "SIGKILL",
  SIGSTOP: "SIGSTOP",
  "socket cut": "cut",
  // The test lowers the limit of the process to what it has open, so the kernel refuses more.
  "fd table full": undefined,
  "disk full": "ENOSPC",
  "memory limit": "ENOMEM",
};

/** Whether the fault lasts until the test removes it. The others happen once. */
export function isLimit(fault: Fault): boolean {
  return fault === "fd table full" || fault === "disk full" || fault === "memory limit";
}

/** Makes the fault happen at this system call of the process. */
export async function arm(party: Party, fault: PartyFault, at: number): Promise<void> {
  const action = actionOf[fault];
  if (action === undefined) party.fillFdTable();
  else await party.arm(action, at);
}

/** Makes the fault happen now. */
export async function hitNow(party: Party, fault: PartyFault): Promise<void> {
  if (fault === "SIGKILL" || fault === "SIGSTOP") {
    party.signal(fault);
    await (fault === "SIGKILL" ? party.exited() : party.untilStopped());
  } else if (fault === "socket cut") {
    await party.must({ do: "cut" });
  } else {
    await arm(party, fault, 1);
  }
}

/**
 * Lets the process go on and removes its limits. WHY until it answers: it may stop even now, at a
 * call that no step waits for, such as one of a third client that reconnects.
 * @returns the calls that it has counted
 */
export async function undo(
  party: Party,
): Promise<{ readonly calls: number; readonly hits: number }> {
  party.emptyFdTable();
  let answered = false;
  const disarmed = party.disarm().finally(() => {
    answered = true;
  });
  await Promise.race([
    disarmed,
    until(`the ${party.title} takes orders`, () => {
      if (party.isStopped) party.signal("SIGCONT");
      return answered;
    }),
  ]);
  return (await disarmed) ?? { calls: 0, hits: 0 };
}
