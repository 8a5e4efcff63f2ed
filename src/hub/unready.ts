/** Why an object that has its name cannot be opened yet, as those are told who want to. */
import { mayOpen } from "./access.js";
import type { Peer } from "./ports.js";
import type { SharedObject } from "./shared-object.js";

export function isReady<Fd>({ published, memory }: SharedObject<Fd>): boolean {
  return published && memory !== undefined;
}

/** Undefined if it can be opened. */
export function unready<Fd>(object: SharedObject<Fd>, peer: Peer): string | undefined {
  if (isReady(object)) return undefined;
  if (!object.published) return unpublished(object, peer);
  return "its memory went with an earlier hub, and no process that holds it has brought it back yet";
}

function unpublished<Fd>(object: SharedObject<Fd>, peer: Peer): string {
  const creator = object.leases.owner?.session;
  // WHY no more: who runs what is nothing for users with whom the object is not shared.
  if (creator === undefined || !mayOpen(object, peer, "read")) return "it is not published yet";
  const { program } = creator;
  return `process ${creator.peer.pid} (${program}) created it and has not published it yet`;
}
