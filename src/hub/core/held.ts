/** Everything that the sessions of a hub hold and wait for. */
import type { HubPolicy } from "../limits/policy.js";
import { ObjectTable } from "../objects/object-table.js";
import { Drains } from "./drains.js";
import type { HubPorts } from "./ports.js";
import { type Session, Sessions } from "./sessions.js";
import { WaitingOpens } from "./waiting-opens.js";

export interface Held<Fd> {
  readonly sessions: Sessions<Fd>;
  readonly objects: ObjectTable<Fd>;
  readonly waiting: WaitingOpens<Fd>;
  readonly drains: Drains<Fd>;
}

/** @param nextId never returns the same number twice */
export function nothingHeld<Fd>(
  policy: HubPolicy,
  ports: HubPorts<Fd>,
  nextId: () => number,
): Held<Fd> {
  const drains = new Drains<Fd>(ports);
  const objects = new ObjectTable<Fd>(ports, nextId, (lease) => drains.leaseEnded(lease));
  return { sessions: new Sessions(policy), objects, waiting: new WaitingOpens(), drains };
}

/** Forgets the requests of a session that wait. */
export function dropWaits<Fd>(session: Session<Fd>, { waiting, drains }: Held<Fd>): void {
  waiting.dropSession(session.id);
  drains.dropSession(session);
}

export function clearHeld<Fd>({ objects, waiting, drains, sessions }: Held<Fd>): void {
  objects.clear();
  waiting.clear();
  drains.clear();
  sessions.clear();
}
