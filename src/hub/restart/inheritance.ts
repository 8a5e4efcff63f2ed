/** What one hub leaves to the next: its journal, and the memory that a keeper has kept. */
import type { ConnectionId, Peer } from "../core/ports.js";
import type { ObjectMemory } from "../objects/shared-object.js";
import type { HubState, SessionRecord } from "./hub-records.js";

/** A session of an earlier hub, as a connection that hung up. Its process may come back. */
export interface EarlierConnection {
  readonly id: ConnectionId;
  readonly peer: Peer;
  readonly session: SessionRecord;
}

export interface Inheritance<Fd> {
  readonly state: HubState;
  readonly connections: readonly EarlierConnection[];
  /** The memory of objects by their numbers. The core takes it over. */
  readonly memory: ReadonlyMap<number, ObjectMemory<Fd>>;
}

/** Makes the inheritance that a dead hub left. */
export function inheritanceAfterCrash<Fd>(
  state: HubState,
  memory: ReadonlyMap<number, ObjectMemory<Fd>>,
): Inheritance<Fd> {
  const connections: EarlierConnection[] = [...state.sessions.values()].map((session, index) => {
    const { pid, pidNamespace, pidfdInode, startTicks, uid, gid, groups } = session;
    const peer = { pid, pidNamespace, pidfdInode, startTicks, uid, gid, groups };
    return { id: index + 1, peer, session };
  });
  return { state, connections, memory };
}

/** The counts for the log, such as "1 object of 2 clients". */
export function contentsOf({ objects, sessions }: HubState): string {
  return `${counted(objects.size, "object")} of ${counted(sessions.size, "client")}`;
}

function counted(count: number, noun: string): string {
  return `${count} ${count === 1 ? noun : `${noun}s`}`;
}
