/** How the hub recognises a process, without the way in which it finds that out. */
import type { Peer } from "../../../src/hub/core/ports.js";

/** Distinguishes a process from all others of a boot; undefined if the hub cannot recognise it. */
export function identityOf({ pid, pidfdInode, startTicks }: Peer): string | undefined {
  if (pidfdInode !== null) return `inode ${pidfdInode}`;
  return pid === 0 || startTicks === null ? undefined : `${pid} started at ${startTicks}`;
}

export function isSameProcess(one: Peer, other: Peer): boolean {
  const identity = identityOf(one);
  return identity !== undefined && identity === identityOf(other);
}
