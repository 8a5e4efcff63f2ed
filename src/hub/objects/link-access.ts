/**
 * Who may use the channels of a service's links. One client claims an offer, by reading it, and
 * only that client makes the channel of the link's requests. Whoever else a channel is shared with
 * does not see what the two send.
 */
import { CudaIpcError } from "../../base/errors.js";
import { ROOT } from "../../os/runtime-folder.js";
import type { ChannelRole } from "../../wire/channel-content.js";
import { linkNameOf, requestName } from "../../wire/link-names.js";
import type { Peer } from "../core/ports.js";
import type { Session } from "../core/sessions.js";
import { isChannel, type Lease, type SharedObject } from "./shared-object.js";

type Find<Fd> = (name: string) => SharedObject<Fd> | undefined;

/**
 * The user of the worker that the client has claimed, if this is the name of the client's requests.
 * @throws PERMISSION_DENIED for every other client
 */
export function workerOfRequests<Fd>(
  attempt: string,
  name: string,
  session: Session<Fd>,
  find: Find<Fd>,
): number | undefined {
  const link = linkNameOf(name);
  if (!link?.isRequests) return undefined;
  const replies = find(link.reply);
  if (replies && readerOf(replies)?.session === session) return replies.owner.uid;
  const found = `its client is whoever reads "${link.reply}", and this process does not`;
  throw new CudaIpcError("PERMISSION_DENIED", `Cannot ${attempt}: ${found}`);
}

/**
 * Checks an open of a link's channel, which is shared with this user.
 * @throws READERS_FULL, PERMISSION_DENIED
 */
export function checkLinkAccess<Fd>(
  object: SharedObject<Fd>,
  role: ChannelRole | undefined,
  { uid }: Peer,
  hubUid: number,
): void {
  const { name, owner } = object;
  const link = linkNameOf(name);
  if (link === undefined) return;
  if (!link.isRequests && role === "reader") {
    checkNotClaimed(object);
    return;
  }
  if (uid === owner.uid || uid === ROOT || uid === hubUid) return;
  if (link.isRequests) {
    const [worker] = object.serviceUsers ?? [];
    if (uid === worker) return;
    const whose = `it has requests of user ${owner.uid} for a worker of user ${worker}`;
    throw refused(name, whose, uid);
  }
  if (!isChannel(object)) return;
  const isItsClient = role === "observer" && readerOf(object)?.session.peer.uid === uid;
  if (!isItsClient) throw refused(name, `it has replies of a worker of user ${owner.uid}`, uid);
}

/**
 * The name of the requests that nobody will make, because the client that has claimed the offer has
 * left. Its worker should make another offer.
 * @param name of one of the two channels
 */
export function requestsOfNobody<Fd>(name: string, find: Find<Fd>): string | undefined {
  const link = linkNameOf(name);
  const replies = link && find(link.reply);
  if (replies?.hadReader !== true || readerOf(replies) !== undefined) return undefined;
  const requests = requestName(replies.name);
  return find(requests) === undefined ? requests : undefined;
}

export function clientLeft(name: string): CudaIpcError {
  const found = "the client that claimed the offer has left";
  return new CudaIpcError("NOT_FOUND", `Cannot open "${name}": ${found}`);
}

function readerOf<Fd>({ leases }: SharedObject<Fd>): Lease<Fd> | undefined {
  for (const lease of leases.values()) if (lease.role === "reader") return lease;
  return undefined;
}

/** WHY once only: a client that has left may still look at the memory of the replies. */
function checkNotClaimed<Fd>({ name, hadReader }: SharedObject<Fd>): void {
  if (hadReader !== true) return;
  throw new CudaIpcError("READERS_FULL", `Cannot open "${name}": another client has claimed it`);
}

function refused(name: string, found: string, uid: number): CudaIpcError {
  const message = `Cannot open "${name}": ${found}, and user ${uid} asked`;
  return new CudaIpcError("PERMISSION_DENIED", message);
}
