/** What a hub that died left: what its journal says, the processes that held something, and what a service manager kept of the memory. */
import type { HubState } from "./hub-records.js";
import type { EarlierConnection, Inheritance } from "./inheritance.js";
import type { ObjectMemory } from "./shared-object.js";

/** Each session as a connection that hung up: its process may come back with what it holds, or has ended. */
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

/** In words. */
export function contentsOf({ objects, sessions }: HubState): string {
  return `${counted(objects.size, "object")} of ${counted(sessions.size, "client")}`;
}

function counted(count: number, noun: string): string {
  return `${count} ${count === 1 ? noun : `${noun}s`}`;
}
