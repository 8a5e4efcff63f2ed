/** Takes the state of an earlier hub over into the tables of this one. */
import type { Inheritance } from "../restart/inheritance.js";
import type { Held } from "./held.js";
import type { HubPorts, SessionId } from "./ports.js";
import type { SessionEnd } from "./session-end.js";
import type { Session } from "./sessions.js";

export function inheritState<Fd>(
  { state, connections, memory }: Inheritance<Fd>,
  { sessions, objects }: Held<Fd>,
  sessionEnd: SessionEnd<Fd>,
  ports: Pick<HubPorts<Fd>, "closeFd">,
): void {
  const { index } = objects;
  const inherited = new Map<SessionId, Session<Fd>>();
  for (const earlier of connections) {
    const session = sessions.restore(earlier);
    session.recorded = true;
    inherited.set(session.id, session);
  }
  for (const { record, published, named } of state.objects.values()) {
    const account = sessions.accountOf(record.owner.uid);
    objects.restore(record, { published, named, account, memory: memory.get(record.id) });
  }
  for (const lease of state.leases.values()) {
    const [object, session] = [index.get(lease.object), inherited.get(lease.session)];
    if (object !== undefined && session !== undefined) objects.restoreLease(lease, object, session);
  }
  for (const [id, { fds }] of memory) {
    // The core owns this memory, but its object has ended meanwhile.
    if (index.get(id) === undefined) for (const fd of fds) ports.closeFd(fd);
  }
  objects.settle();
  for (const { id } of connections) {
    const connection = sessions.find(id);
    if (connection !== undefined) sessionEnd.endIfEmpty(connection);
  }
  objects.settleChannels();
}
