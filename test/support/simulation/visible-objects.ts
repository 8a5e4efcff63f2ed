/** The objects that a client may see, each with the facts whose changes a hub reports. */
import { mayOpen } from "./memory-rules.js";
import type { Model, ModelSession } from "./model.js";

export function visible(model: Model, session: ModelSession): Map<number, readonly unknown[]> {
  const seen = [...model.names.values()].filter((object) => mayOpen(object, session, "read"));
  return new Map(
    seen.map(({ id, leases, published, memory, ownerLease }) => {
      const ownerPid = ownerLease?.session.peer.pid ?? null;
      return [id, [leases.size, published, memory !== undefined, ownerPid]];
    }),
  );
}
