/** Permissions of users, by the numbers that the kernel reports for the peer of a socket. */
import { CudaIpcError } from "../../base/errors.js";
import type { Access } from "../../os/mapping.js";
import { ROOT } from "../../os/runtime-folder.js";
import type { Sharing } from "../../wire/messages.js";
import type { Peer } from "./ports.js";

export interface Guarded {
  readonly name: string;
  readonly sharing: Sharing;
  readonly owner: { readonly uid: number; readonly gid: number };
}

/** True for the owner's user and for root. */
function mayManage({ owner }: Guarded, peer: Peer): boolean {
  return peer.uid === owner.uid || peer.uid === ROOT;
}

export function mayOpen(object: Guarded, peer: Peer, access: Access): boolean {
  if (mayManage(object, peer)) return true;
  const { sharing, owner } = object;
  if (access === "read-write" && sharing.access !== "read-write") return false;
  if (sharing.with === "all") return true;
  return sharing.with === "group" && (peer.gid === owner.gid || peer.groups.includes(owner.gid));
}

/** @throws PERMISSION_DENIED */
export function checkMayOpen(object: Guarded, peer: Peer, access: Access): void {
  if (mayOpen(object, peer, access)) return;
  const purpose = access === "read" ? "reading" : "writing";
  throw denied(`open "${object.name}" for ${purpose}`, object, peer);
}

/** @throws PERMISSION_DENIED */
export function checkMayManage(object: Guarded, peer: Peer, verb: string): void {
  const { name, owner } = object;
  if (mayManage(object, peer)) return;
  throw new CudaIpcError(
    "PERMISSION_DENIED",
    `Cannot ${verb} "${name}": it belongs to user ${owner.uid}, and user ${peer.uid} asked. ` +
      "Only its owner and root may do it.",
  );
}

/** @throws PERMISSION_DENIED */
export function checkMaySee(object: Guarded, peer: Peer): void {
  if (!mayOpen(object, peer, "read")) throw denied(`inspect "${object.name}"`, object, peer);
}

/** True for the hub's own user and for root. */
export function mayRule(hubUid: number, peer: Peer): boolean {
  return peer.uid === hubUid || peer.uid === ROOT;
}

/** @throws PERMISSION_DENIED */
export function checkMayRule(hubUid: number, peer: Peer, verb: string): void {
  if (mayRule(hubUid, peer)) return;
  throw new CudaIpcError(
    "PERMISSION_DENIED",
    `Cannot ${verb} the hub: it belongs to user ${hubUid}, and user ${peer.uid} asked. ` +
      "Only its owner and root may do it.",
  );
}

function denied(attempt: string, { sharing, owner }: Guarded, peer: Peer): CudaIpcError {
  const audience = sharing.with === "group" ? `group ${owner.gid}` : "all users";
  const shared =
    sharing.with === "private" ? "not shared" : `shared with ${audience} (${sharing.access})`;
  return new CudaIpcError(
    "PERMISSION_DENIED",
    `Cannot ${attempt}: it belongs to user ${owner.uid}, is ${shared}, and user ${peer.uid} ` +
      "asked. Its creator can share it with the option `sharing`.",
  );
}
