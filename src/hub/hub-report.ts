/** What the hub says of itself and its objects, as the messages want it. */
import type { HubStatus, ObjectSummary } from "../wire/messages.js";
import type { HubIdentity } from "./hub-core.js";
import type { ObjectTable, SharedObject } from "./object-table.js";

export function summarize<Fd>(object: SharedObject<Fd>): ObjectSummary {
  const owned = [...object.leases.values()].some((lease) => lease.kind === "owner");
  return {
    name: object.name,
    object: object.id,
    published: object.published,
    lifetime: object.lifetime,
    leases: object.leases.size,
    ownerPid: owned ? object.ownerPid : null,
    createdAtMs: object.createdAtMs,
    descriptor: object.descriptor,
  };
}

export function hubStatus<Fd>(
  identity: HubIdentity,
  table: ObjectTable<Fd>,
  counts: { readonly clients: number; readonly waitingOpens: number },
): HubStatus {
  let hostBytes = 0;
  let deviceBytes = 0;
  let pinned = 0;
  for (const object of table.objects()) {
    const bytes = object.descriptor.allocationByteLength;
    if (object.descriptor.device.kind === "host") hostBytes += bytes;
    else deviceBytes += bytes;
    if (object.lifetime === "pinned" && object.named) pinned += 1;
  }
  return { ...identity, ...counts, objects: table.size, pinned, leases: table.leaseCount, hostBytes, deviceBytes };
}
