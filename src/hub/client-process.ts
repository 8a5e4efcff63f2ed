/** Which process a client is, as the kernel says, and how a hub that starts finds the processes of an earlier one again. */
import { CudaIpcError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { pidfdInode } from "../os/pidfd-inode.js";
import { identityOf, openProcess, ownIdentity } from "../os/process-identity.js";
import { openPidfd } from "../os/process-watch.js";
import type { SeqpacketSocket } from "../os/seqpacket.js";
import { isMappedGroup, isMappedUser } from "../os/user-namespace.js";
import type { Peer } from "./ports.js";

/**
 * @param pidfd of the process on the other side of the socket; undefined if it has ended, or before Linux 6.5 is not seen
 * @throws UNTRUSTED_PEER
 */
export function peerOf(socket: SeqpacketSocket, pidfd: OwnedFd | undefined): Peer {
  const { pid, uid, gid } = socket.peerCredentials();
  if (!isMappedUser(uid) || !isMappedGroup(gid)) {
    const found = "its user or group is not mapped in the user namespace of the hub, where all such users look alike";
    throw new CudaIpcError(
      "UNTRUSTED_PEER",
      `Cannot serve this client: ${found}. Run the hub outside of that namespace.`,
    );
  }
  const inode = pidfd === undefined ? null : pidfdInode(pidfd);
  return {
    pid,
    pidNamespace: ownIdentity().pidNamespace,
    pidfdInode: inode,
    // WHY not both: the inode tells more, and to look for the start takes a tenth of the time that a client costs who comes.
    startTicks: inode === null ? (identityOf(pid)?.startTicks ?? null) : null,
    uid,
    gid,
    groups: socket.peerGroups().filter(isMappedGroup),
  };
}

/**
 * A pidfd of a process that an earlier hub served; the caller owns it. "unseen" if its number counts in a PID namespace that this
 * hub is not in: it may run, and can prove who it is when it comes back. "gone" if it has ended, or could not prove it.
 * @throws TOO_MANY_FDS
 */
export function findClientProcess(peer: Peer): OwnedFd | "gone" | "unseen" {
  const own = ownIdentity();
  const { pid, startTicks, pidfdInode: inode } = peer;
  if (pid === 0 || peer.pidNamespace !== own.pidNamespace) return inode === null ? "gone" : "unseen";
  if (inode !== null) return openByInode(pid, inode) ?? "gone";
  return (startTicks === null ? undefined : openProcess({ ...own, pid, startTicks })) ?? "gone";
}

/** The process that has this number now, if it is the one with this inode. WHY first by inode: /proc may hide it (`hidepid`). */
function openByInode(pid: number, inode: string): OwnedFd | undefined {
  return acquireIn((scope) => {
    const pidfd = openPidfd(pid);
    scope.defer(() => pidfd?.close());
    if (pidfd === undefined || pidfdInode(pidfd) === inode) return pidfd;
    pidfd.close();
    return undefined;
  });
}
