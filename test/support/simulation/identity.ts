/** How the hub knows a process again, told apart from how it finds out. */
import type { Peer } from "../../../src/hub/ports.js";

/** What tells a process from all others of a boot; undefined if the hub cannot know it again. */
export function identityOf({ pid, pidfdInode, startTicks }: Peer): string | undefined {
  if (pidfdInode !== null) return `inode ${pidfdInode}`;
  return pid === 0 || startTicks === null ? undefined : `${pid} started at ${startTicks}`;
}
