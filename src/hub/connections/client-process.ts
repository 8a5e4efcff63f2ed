/**
 * Finds out which process a client is, and finds the processes of an earlier hub's clients again.
 */
import { CudaIpcError } from "../../base/errors.js";
import { acquireIn } from "../../base/scope.js";
import { isMappedGroup, isMappedUser } from "../../os/accounts.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { identityOf, openProcess, ownIdentity } from "../../os/process-identity.js";
import { openPidfd, pidfdInode } from "../../os/process-watch.js";
import type { SeqpacketSocket } from "../../os/seqpacket.js";
import type { Peer } from "../core/ports.js";

/**
 * @param pidfd of the process at the other end; undefined if it has ended, or if the hub cannot see
 * it before Linux 6.5
 * @throws UNTRUSTED_PEER
 */
export function peerOf(socket: SeqpacketSocket, pidfd: OwnedFd | undefined): Peer {
  const { pid, uid, gid } = socket.peerCredentials();
  if (!isMappedUser(uid) || !isMappedGroup(gid)) {
    throw new CudaIpcError(
      "UNTRUSTED_PEER",
      "Cannot serve this client: its user or group is not mapped in the hub's user namespace, " +
        "where all such users look alike. Run the hub outside of that namespace.",
    );
  }
  const inode = pidfd === undefined ? null : pidfdInode(pidfd);
  return {
    pid,
    pidNamespace: ownIdentity().pidNamespace,
    pidfdInode: inode,
    // Not both: the inode says more, and finding the start takes a tenth of the time to admit a
    // client.
    startTicks: inode === null ? (identityOf(pid)?.startTicks ?? null) : null,
    uid,
    gid,
    groups: socket.peerGroups().filter(isMappedGroup),
  };
}

/**
 * Opens a pidfd of a process that an earlier hub served, owned by the caller. Returns "unseen" if
 * its number belongs to a PID namespace that the hub is not in: it may still run and come back.
 * Returns "gone" if it has ended, or could not prove its identity.
 * @throws TOO_MANY_FDS
 */
export function findClientProcess(peer: Peer): OwnedFd | "gone" | "unseen" {
  const own = ownIdentity();
  const { pid, startTicks, pidfdInode: inode } = peer;
  if (pid === 0 || peer.pidNamespace !== own.pidNamespace)
    return inode === null ? "gone" : "unseen";
  if (inode !== null) return openByInode(pid, inode) ?? "gone";
  return (startTicks === null ? undefined : openProcess({ ...own, pid, startTicks })) ?? "gone";
}

/**
 * Opens the process with this number if it has this inode. Does not look into /proc, which may hide
 * it (`hidepid`).
 */
function openByInode(pid: number, inode: string): OwnedFd | undefined {
  return acquireIn((scope) => {
    const pidfd = openPidfd(pid);
    scope.defer(() => pidfd?.close());
    if (pidfd === undefined || pidfdInode(pidfd) === inode) return pidfd;
    pidfd.close();
    return undefined;
  });
}
