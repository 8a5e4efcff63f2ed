/** Everything that the sessions of a hub hold and wait for. */
import type { HubPolicy } from "../limits/policy.js";
import { clientLeft, requestsOfNobody } from "../objects/link-access.js";
import { ObjectTable } from "../objects/object-table.js";
import { ChangeWaits } from "./change-waits.js";
import { Drains } from "./drains.js";
import { errorReply } from "./error-reply.js";
import type { HubPorts } from "./ports.js";
import { type Session, Sessions } from "./sessions.js";
import { WaitingOpens } from "./waiting-opens.js";

export interface Held<Fd> {
  /** The user of the hub. */
  readonly hubUid: number;
  readonly sessions: Sessions<Fd>;
  readonly objects: ObjectTable<Fd>;
  readonly waiting: WaitingOpens<Fd>;
  readonly drains: Drains<Fd>;
  readonly changeWaits: ChangeWaits<Fd>;
}

/** @param nextId never returns the same number twice */
export function nothingHeld<Fd>(
  policy: HubPolicy,
  ports: HubPorts<Fd>,
  nextId: () => number,
): Held<Fd> {
  const drains = new Drains<Fd>(ports);
  const waiting = new WaitingOpens<Fd>();
  const objects = new ObjectTable<Fd>(ports, nextId, (lease) => {
    drains.leaseEnded(lease);
    const { name } = lease.object;
    const requests = requestsOfNobody(name, (name) => objects.index.find(name));
    if (requests !== undefined) refuseRequests(requests, waiting, ports);
  });
  const changeWaits = new ChangeWaits<Fd>(ports);
  objects.index.changes.onChange = (object) => changeWaits.changed(object);
  const sessions = new Sessions<Fd>(policy);
  return { hubUid: policy.uid, sessions, objects, waiting, drains, changeWaits };
}

/** Tells the worker that waits for these requests of a client that the client has left. */
function refuseRequests<Fd>(name: string, waiting: WaitingOpens<Fd>, ports: HubPorts<Fd>): void {
  const error = clientLeft(name);
  for (const session of waiting.sessionsFor(name)) {
    for (;;) {
      const request = waiting.takeFirst(session, name);
      if (request === undefined) break;
      ports.reply(session.connection.id, errorReply(request.id, error), []);
    }
  }
}

/** Forgets the requests of a session that wait. */
export function dropWaits<Fd>(session: Session<Fd>, held: Held<Fd>): void {
  const { waiting, drains, changeWaits } = held;
  waiting.dropSession(session.id);
  drains.dropSession(session);
  changeWaits.dropSession(session);
}

export function clearHeld<Fd>(held: Held<Fd>): void {
  const { objects, waiting, drains, changeWaits, sessions } = held;
  // First, because it is told of all that ends.
  changeWaits.clear();
  objects.clear();
  waiting.clear();
  drains.clear();
  sessions.clear();
}
