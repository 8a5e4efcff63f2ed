/** What the removal of an object would free. */
import { chargedBytes } from "../wire/descriptor.js";
import type { ObjectSummary } from "../wire/messages.js";

export interface Removal {
  /** How many bytes become free. */
  readonly bytes: number;
  /** How many leases must end before. */
  readonly leases: number;
  /** Why no memory becomes free, if none does. */
  readonly keptBy?: "pool" | "timelines" | "holders" | undefined;
}

/** Counts what the hub knows. Memory that was also shared without the hub stays for its users. */
export function removalOf({ descriptor, hasMemory, leases }: ObjectSummary): Removal {
  const none = (keptBy: Removal["keptBy"]) => ({ bytes: 0, leases, keptBy });
  // A pool gives nothing back before all of it is destroyed.
  if (descriptor.mechanism === "pool") return none("pool");
  if (descriptor.content.kind === "timeline") return none("timelines");
  if (!hasMemory) return none("holders");
  const { hostBytes, deviceBytes } = chargedBytes(descriptor);
  return { bytes: hostBytes + deviceBytes, leases };
}
