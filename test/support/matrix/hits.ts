/**
 * How each fault happens: within the system calls of the process that is hit, or from outside while
 * another is paused half-way.
 */
import type { Fault, PartyFault } from "./cells.js";
import type { SeamAction } from "./fault-seam.js";
import type { Party } from "./party.js";

/** What the process does to itself at a call; undefined for what is done to it from outside. */
const actionOf: Readonly<Record<PartyFault, SeamAction | undefined>> = {
  SIGKILL: "SIGKILL",
  SIGSTOP: "SIGSTOP",
  "socket cut": "cut",
  // The limit of the process itself is lowered to what it uses: the kernel refuses.
  "fd table full": undefined,
  "disk full": "ENOSPC",
  "memory limit": "ENOMEM",
};

/** What lasts until it is taken away, as opposed to what happens once. */
export function isLimit(fault: Fault): boolean {
  return fault === "fd table full" || fault === "disk full" || fault === "memory limit";
}

/** Has it happen at this call of the process's own. */
export async function arm(party: Party, fault: PartyFault, at: number): Promise<void> {
  const action = actionOf[fault];
  if (action === undefined) party.fillFdTable();
  else await party.arm(action, at);
}

/** Has it happen now. */
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

/** It goes on, and has room for everything again. How many calls it made, where it counted them. */
export async function undo(
  party: Party,
): Promise<{ readonly calls: number; readonly hits: number }> {
  if (party.isStopped) party.signal("SIGCONT");
  party.emptyFdTable();
  return (await party.disarm()) ?? { calls: 0, hits: 0 };
}
