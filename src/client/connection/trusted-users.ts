/** The users whose processes may have what this one shares: its own user, root and the hub's. */
import type { Deadline } from "../../base/deadline.js";
import { ownUid, ROOT } from "../../os/runtime-folder.js";
import type { HubLink } from "./hub-link.js";

/**
 * Returns their uids as the hub numbers them, its own user's first. WHY the hub is asked: in a user
 * namespace of its own this process sees other numbers than the hub, which says whose an object is.
 */
export async function trustedUsers(
  link: HubLink,
  deadline: Deadline,
): Promise<ReadonlySet<number>> {
  const { session } = link;
  const after = session > 1 ? { after: session - 1 } : {};
  const { clients } = await link.request("clients", after, deadline);
  const own = clients.find((client) => client.session === session)?.uid ?? ownUid();
  // The number of the hub's user, too, is one of this process's namespace.
  return new Set(own === ownUid() ? [own, ROOT, link.hubUid] : [own, ROOT]);
}
