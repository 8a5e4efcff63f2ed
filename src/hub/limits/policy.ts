/** The users that a hub serves, and their limits. */
import { limits } from "../../base/limits.js";
import type { Peer } from "../core/ports.js";
import { type Level, type Quota, resources } from "./quota.js";

export interface HubPolicy {
  /** The hub's own user, who is always served. */
  readonly uid: number;
  /** Other served users by uid. `all` means everybody who can reach the socket. */
  readonly users: "all" | ReadonlySet<number>;
  readonly groups: ReadonlySet<number>;
  readonly limits: Readonly<Record<Level, Quota>>;
  /** The quotas of users with limits of their own instead of `limits.user`. */
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
 * The default limits of a hub. Objects get three quarters of the hub's open files. The rest is for
 * clients, which need a socket and a pidfd each.
 * Descriptors in flight get a quarter: the kernel counts all that this user has in flight between
 * processes, and refuses more than one process may have open.
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

/**
 * Each user's share if the hub serves several: half of the hub's limits, so that no user can take
 * everything.
 */
export function shareOf(hub: Quota): Quota {
  const shares = resources.map((resource) => [resource, Math.max(1, Math.ceil(hub[resource] / 2))]);
  const share: Quota = { ...unlimitedQuota, ...Object.fromEntries(shares) };
  return { ...share, unreadDescriptors: oneMessage(share.unreadDescriptors) };
}

/** A limit below one full message could never send that message. */
function oneMessage(descriptors: number): number {
  return Math.max(limits.scmRightsFdsMax, descriptors);
}

/** The policy of a hub that `connect()` starts for its own user. */
export function privatePolicy(uid: number, limits = defaultQuotas): HubPolicy {
  return { uid, users: new Set(), groups: new Set(), limits, userLimits: new Map() };
}

export function isServed(policy: HubPolicy, peer: Peer): boolean {
  if (peer.uid === policy.uid || policy.users === "all" || policy.users.has(peer.uid)) return true;
  return [peer.gid, ...peer.groups].some((gid) => policy.groups.has(gid));
}

/** Whether the hub may serve other users. Root counts as another user. */
export function servesOthers({ users, groups }: Pick<HubPolicy, "users" | "groups">): boolean {
  return users === "all" || users.size > 0 || groups.size > 0;
}

/** Whether it may serve users who could harm it: not root, and not the hub's own user. */
export function servesUntrusted({ uid, users, groups }: HubPolicy): boolean {
  return users === "all" || groups.size > 0 || [...users].some((one) => one !== 0 && one !== uid);
}
