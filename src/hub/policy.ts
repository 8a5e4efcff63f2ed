/** What a hub allows: whom it serves, and how much each may have. */
import { limits } from "../base/limits.js";
import type { Peer } from "./ports.js";
import type { Level, Quota } from "./quota.js";

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
  hostBytes: NONE,
  deviceBytes: NONE,
  messagesPerSecond: NONE,
};

export const defaultQuotas: Readonly<Record<Level, Quota>> = {
  hub: { ...unlimitedQuota, clients: limits.hubClientsMax, objects: limits.hubObjectsMax },
  user: unlimitedQuota,
  client: {
    ...unlimitedQuota,
    leases: limits.leasesPerClientMax,
    waitingOpens: limits.waitingOpensPerClientMax,
  },
};

/**
 * What a hub allows where nobody has said otherwise.
 * @param openFilesMax how many files the hub may have open: objects get three quarters of them, and the rest is for serving whoever comes
 */
export function defaultQuotasOf(openFilesMax: number): Readonly<Record<Level, Quota>> {
  return { ...defaultQuotas, hub: { ...defaultQuotas.hub, descriptors: Math.floor((3 * openFilesMax) / 4) } };
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
export function servesOthers({ users, groups }: HubPolicy): boolean {
  return users === "all" || users.size > 0 || groups.size > 0;
}
