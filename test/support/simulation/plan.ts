/**
 * The kind of run that a seed gives: the number of clients, their users and limits, and how often
 * things fail.
 */
import { type HubPolicy, unlimitedQuota } from "../../../src/hub/limits/policy.js";
import type { Quota } from "../../../src/hub/limits/quota.js";
import type { Random } from "../random.js";

export interface Plan {
  readonly policy: HubPolicy;
  /** The number of processes at a time. */
  readonly processes: number;
  /** The steps for which a process lives on average, with so many processes at a time. */
  readonly stepsPerLife: number;
  readonly names: number;
  readonly stepsPerCrash: number;
  /** Whether a service manager keeps descriptors over a crash. */
  readonly keepsFds: boolean;
  readonly stepsPerComparison: number;
}

const HUB_UID = 500;
export const USERS = [HUB_UID, 0, 1001, 1002, 1003] as const;
/** A user that the hub does not serve. */
export const STRANGER = 6666;

const NONE = Number.POSITIVE_INFINITY;

/** @param processes how many at a time; chosen by the seed by default */
export function planOf(random: Random, processes: number = random.pick([3, 12, 50, 50, 50])): Plan {
  const limited = random.chance(0.6);
  return {
    policy: {
      uid: HUB_UID,
      users: random.chance(0.5) ? new Set(USERS) : new Set([1001, 1002]),
      groups: new Set([77]),
      limits: {
        hub: limited ? quota(random, processes, [500]) : unlimitedQuota,
        user: limited ? quota(random, 0.4 * processes, [62.5, 125]) : unlimitedQuota,
        client: limited ? quota(random, 2, [7.8125, 15.625]) : unlimitedQuota,
      },
      userLimits: limited ? new Map([[1002, quota(random, 0.2 * processes, [31.25])]]) : new Map(),
    },
    processes,
    stepsPerLife: random.pick([20, 100, 400]) * processes,
    names: Math.max(4, Math.ceil(processes * random.pick([0.3, 1, 3, 9]))),
    stepsPerCrash: random.pick([500, 3000, 20_000]) * Math.max(1, processes / 50),
    keepsFds: random.chance(0.5),
    stepsPerComparison: 50 * processes,
  };
}

/**
 * A quota with some limits near the use, and the others far away.
 * @param rates messages per second whose share of a millisecond is exact in binary, so that the
 * model can compute the exact millisecond
 */
function quota(random: Random, near: number, rates: readonly number[]): Quota {
  const limit = (unit: number) =>
    random.chance(0.3) ? Math.max(1, Math.ceil(near * (0.4 + 2 * random.next()))) * unit : NONE;
  const bytes = { hostBytes: limit(4096), deviceBytes: limit(4096) };
  const counts = {
    clients: limit(1),
    objects: limit(1),
    descriptors: limit(2),
    leases: limit(2),
    waitingOpens: limit(1),
  };
  return {
    ...unlimitedQuota,
    ...counts,
    ...bytes,
    messagesPerSecond: random.chance(0.2) ? random.pick(rates) : NONE,
  };
}
