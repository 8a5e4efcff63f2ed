/**
 * Who uses how much: an account for each client, within one for its user, within the hub's. What is charged to a client counts in
 * all three, and is refused where one of them would go over its quota.
 */
import { CudaIpcError } from "../base/errors.js";
import { MessageRate } from "./message-rate.js";

export const resources = [
  "clients",
  "objects",
  "descriptors",
  "leases",
  "waitingOpens",
  "unreadBytes",
  "unreadDescriptors",
  "hostBytes",
  "deviceBytes",
] as const;
export const quotaFields = [...resources, "messagesPerSecond"] as const;
export type Resource = (typeof resources)[number];

/** What the hub has and gives away itself, and does not tell of a user. */
type OfTheHub = "descriptors" | "unreadBytes" | "unreadDescriptors";

export type Cost = Readonly<Partial<Record<Resource, number>>>;

/** The most of each that an account may have at a time; `Infinity` for no limit. */
export type Quota = Readonly<Record<Resource | "messagesPerSecond", number>>;

export type Level = "hub" | "user" | "client";

const words: Readonly<Record<Resource, string>> = {
  clients: "clients, those included that lost their connection and still hold something",
  objects: "objects",
  descriptors: "file descriptors of objects",
  leases: "leases",
  waitingOpens: "opens that wait",
  unreadBytes: "bytes of replies that wait to be read",
  unreadDescriptors: "file descriptors that were sent and not read yet",
  hostBytes: "bytes of host memory",
  deviceBytes: "bytes of GPU memory",
};

export class Account {
  readonly level: Level;
  /** As in "user 1000". */
  readonly label: string;
  readonly quota: Quota;
  readonly parent: Account | undefined;
  /** Where its quota is set, as in "limits.user". */
  readonly source: string;
  readonly #used = new Map<Resource, number>();
  readonly #rate: MessageRate;

  constructor(level: Level, label: string, quota: Quota, parent?: Account, source = `limits.${level}`) {
    this.level = level;
    this.source = source;
    this.label = label;
    this.quota = quota;
    this.parent = parent;
    this.#rate = new MessageRate(quota.messagesPerSecond);
  }

  used(resource: Resource): number {
    return this.#used.get(resource) ?? 0;
  }

  /** Whether it uses anything. */
  get inUse(): boolean {
    return this.#used.size > 0;
  }

  /** What it uses of each that the protocol tells of a user. */
  get usage(): Readonly<Record<Exclude<Resource, OfTheHub>, number>> {
    const [clients, objects, leases] = [this.used("clients"), this.used("objects"), this.used("leases")];
    const [hostBytes, deviceBytes] = [this.used("hostBytes"), this.used("deviceBytes")];
    return { clients, objects, leases, waitingOpens: this.used("waitingOpens"), hostBytes, deviceBytes };
  }

  /**
   * Charges this account and those above it, or none of them.
   * @param attempt as in "create "frame""
   * @throws LIMIT_EXCEEDED
   */
  charge(attempt: string, cost: Cost): void {
    for (const account of this.#chain()) account.#check(attempt, cost);
    this.take(cost);
  }

  /** As `charge`, for what is there already: also over the quota. */
  take(cost: Cost): void {
    for (const account of this.#chain()) account.#add(cost, 1);
  }

  refund(cost: Cost): void {
    for (const account of this.#chain()) account.#add(cost, -1);
  }

  /** As `take`, leaving the accounts above as they are. */
  takeHere(cost: Cost): void {
    this.#add(cost, 1);
  }

  /** As `refund`, leaving the accounts above as they are: what was this one's is now nobody's in particular. */
  refundHere(cost: Cost): void {
    this.#add(cost, -1);
  }

  /** Counts a message, unless it comes too early for one of the accounts: then how many milliseconds too early, and for which. */
  countMessage(nowMs: number): { readonly waitMs: number; readonly exceeded: Account | undefined } {
    let waitMs = 0;
    let exceeded: Account | undefined;
    for (const account of this.#chain()) {
      const wait = account.#rate.waitMs(nowMs);
      if (wait <= waitMs) continue;
      waitMs = wait;
      exceeded = account;
    }
    // WHY not what is refused: one client's or user's flood would use up what the hub takes from all, and be waited for long after it.
    if (exceeded === undefined) for (const account of this.#chain()) account.#rate.count();
    return { waitMs, exceeded };
  }

  *#chain(): IterableIterator<Account> {
    for (let account: Account | undefined = this; account !== undefined; account = account.parent) yield account;
  }

  #check(attempt: string, cost: Cost): void {
    for (const resource of resources) {
      const wanted = cost[resource] ?? 0;
      const limit = this.quota[resource];
      const used = this.used(resource);
      if (wanted === 0 || used + wanted <= limit) continue;
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot ${attempt}: ${this.label} has ${used} ${words[resource]}, and ${wanted} more would be over its limit of ${limit} ` +
          `(${this.source}.${resource})`,
      );
    }
  }

  #add(cost: Cost, sign: 1 | -1): void {
    for (const resource of resources) {
      const amount = cost[resource];
      if (amount === undefined || amount === 0) continue;
      const used = this.used(resource) + sign * amount;
      if (used < 0) throw new RangeError(`${this.label} would have ${used} ${words[resource]}`);
      if (used === 0) this.#used.delete(resource);
      else this.#used.set(resource, used);
    }
  }
}
