/** What a hub allows: whom it serves, and how much each may have. */
import { limits } from "../base/limits.js";
import type { Peer } from "./ports.js";
import { type Level, type Quota, resources } from "./quota.js";

export interface HubPolicy {
  /** The user of the hub itself, who is always served. */
  readonly uid: number;
  /** Other users who are served, by number; `all` for everybody who can reach the socket. */
  readonly users: "all" | ReadonlySet<number>;
  /** Groups whose members are served. */
  readonly groups: ReadonlySet<number>;
  readonly limits: Readonly<Record<Level, Quota>>;
  /** Quotas of users who have others than `limits.user`. */
  readonly userLimits: ReadonlyMap<number, Quota>;
}

const NONE = Number.POSITIVE_INFINITY;

export const unlimitedQuota: Quota = {
  clients: NONE,
  objects: NONE,
  descriptors: NONE,
  leases: NONE,
  waitingOpens: NONE,
  unreadBytes: NONE,
  unreadDescriptors: NONE,
  hostBytes: NONE,
  deviceBytes: NONE,
  messagesPerSecond: NONE,
};

/**
 * What a hub of one user allows where nobody has said otherwise. Objects get three quarters of the files that the hub may have open; a
 * client has a socket and a pidfd; the rest is for serving whoever comes.
 * WHY a quarter in flight: the kernel counts what this user has under way between all processes, and refuses more than one process may
 * have open.
 */
export function defaultQuotasOf(openFilesMax: number): Readonly<Record<Level, Quota>> {
  const hub: Quota = {
    ...unlimitedQuota,
    clients: Math.min(limits.hubClientsMax, Math.max(1, Math.floor(openFilesMax / 16))),
    objects: limits.hubObjectsMax,
    descriptors: Math.floor((3 * openFilesMax) / 4),
    leases: limits.hubLeasesMax,
    waitingOpens: limits.hubWaitingOpensMax,
    unreadBytes: limits.hubUnreadBytesMax,
    unreadDescriptors: oneMessage(Math.floor(openFilesMax / 4)),
  };
  const client: Quota = {
    ...unlimitedQuota,
    leases: limits.leasesPerClientMax,
    waitingOpens: limits.waitingOpensPerClientMax,
    unreadBytes: limits.unreadBytesPerClientMax,
    unreadDescriptors: limits.unreadDescriptorsPerClientMax,
  };
  return { hub, user: unlimitedQuota, client };
}

export const defaultQuotas = defaultQuotasOf(NONE);

/** What each user may have where there are others: half of what the hub may, so that none of them leaves nothing to the rest. */
export function shareOf(hub: Quota): Quota {
  const shares = resources.map((resource) => [resource, Math.max(1, Math.ceil(hub[resource] / 2))]);
  const share: Quota = { ...unlimitedQuota, ...Object.fromEntries(shares) };
  return { ...share, unreadDescriptors: oneMessage(share.unreadDescriptors) };
}

/** WHY at least so many: a reply that is over the limit by itself could never be sent. */
function oneMessage(descriptors: number): number {
  return Math.max(limits.scmRightsFdsMax, descriptors);
}

/** One user's hub, as `connect()` starts it. */
export function privatePolicy(uid: number, limits = defaultQuotas): HubPolicy {
  return { uid, users: new Set(), groups: new Set(), limits, userLimits: new Map() };
}

export function isServed(policy: HubPolicy, peer: Peer): boolean {
  if (peer.uid === policy.uid || policy.users === "all" || policy.users.has(peer.uid)) return true;
  return [peer.gid, ...peer.groups].some((gid) => policy.groups.has(gid));
}

/** Whether processes of other users than its own may be served. Root is another one, and is served where it is named. */
export function servesOthers({ users, groups }: Pick<HubPolicy, "users" | "groups">): boolean {
  return users === "all" || users.size > 0 || groups.size > 0;
}
