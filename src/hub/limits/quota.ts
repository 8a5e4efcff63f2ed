/**
 * Accounts of what is used: one for each client, inside one for its user, inside the hub's. A
 * charge counts in all three, and is refused if it exceeds one of their quotas.
 */
import { CudaIpcError } from "../../base/errors.js";

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

/** Resources of the hub itself, which `status` does not show for users. */
type OfTheHub = "descriptors" | "unreadBytes" | "unreadDescriptors";

export type Cost = Readonly<Partial<Record<Resource, number>>> & {
  /** Host memory that costs an account nothing more if it pays for the same file already. */
  readonly file?: SharedFile;
};

interface SharedFile {
  /** The same for all costs with this file. */
  readonly key: string;
  readonly bytes: number;
}

/** The limits of an account. `Infinity` means no limit. */
export type Quota = Readonly<Record<Resource | "messagesPerSecond", number>>;

export type Level = "hub" | "user" | "client";

const words: Readonly<Record<Resource, string>> = {
  clients: "clients (including disconnected ones that still hold something)",
  objects: "objects",
  descriptors: "file descriptors of objects",
  leases: "leases",
  waitingOpens: "waiting opens",
  unreadBytes: "bytes of unread replies",
  unreadDescriptors: "unread file descriptors",
  hostBytes: "bytes of host memory",
  deviceBytes: "bytes of GPU memory",
};

export class Account {
  readonly level: Level;
  /** The name in messages, such as "user 1000". */
  readonly label: string;
  readonly quota: Quota;
  readonly parent: Account | undefined;
  /** The field that sets its quota, such as "limits.user". */
  readonly source: string;
  readonly #used = new Map<Resource, number>();
  /** How many costs have each file. */
  readonly #files = new Map<string, number>();
  readonly #rate: MessageRate;

  constructor(
    level: Level,
    label: string,
    quota: Quota,
    parent?: Account,
    source = `limits.${level}`,
  ) {
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

  get inUse(): boolean {
    return this.#used.size > 0;
  }

  /** The usage that `status` shows for a user. */
  get usage(): Readonly<Record<Exclude<Resource, OfTheHub>, number>> {
    const [clients, objects, leases] = [
      this.used("clients"),
      this.used("objects"),
      this.used("leases"),
    ];
    const [hostBytes, deviceBytes] = [this.used("hostBytes"), this.used("deviceBytes")];
    return {
      clients,
      objects,
      leases,
      waitingOpens: this.used("waitingOpens"),
      hostBytes,
      deviceBytes,
    };
  }

  /**
   * Charges this account and those above it, or none of them.
   * @param attempt such as "create "frame""
   * @throws LIMIT_EXCEEDED
   */
  charge(attempt: string, cost: Cost): void {
    for (const account of this.#chain()) account.#check(attempt, cost);
    this.take(cost);
  }

  /** Like `charge`, but also over the quota, for what exists already. */
  take(cost: Cost): void {
    for (const account of this.#chain()) account.#add(cost, 1);
  }

  refund(cost: Cost): void {
    for (const account of this.#chain()) account.#add(cost, -1);
  }

  /** Like `take`, for this account only. */
  takeHere(cost: Cost): void {
    this.#add(cost, 1);
  }

  /** Like `refund`, for this account only: the accounts above still pay. */
  refundHere(cost: Cost): void {
    this.#add(cost, -1);
  }

  /**
   * Counts a message unless it comes too early for one of the accounts. Then returns how many
   * milliseconds too early, and that account.
   */
  countMessage(nowMs: number): { readonly waitMs: number; readonly exceeded: Account | undefined } {
    let waitMs = 0;
    let exceeded: Account | undefined;
    for (const account of this.#chain()) {
      const wait = account.#rate.waitMs(nowMs);
      if (wait <= waitMs) continue;
      waitMs = wait;
      exceeded = account;
    }
    // WHY refused messages do not count: one client's flood would use up the rate of the whole hub,
    // and everybody would wait long after it.
    if (exceeded === undefined) for (const account of this.#chain()) account.#rate.count();
    return { waitMs, exceeded };
  }

  *#chain(): IterableIterator<Account> {
    for (let account: Account | undefined = this; account !== undefined; account = account.parent)
      yield account;
  }

  #check(attempt: string, cost: Cost): void {
    const { key, bytes = 0 } = cost.file ?? {};
    const fileBytes = key === undefined || this.#files.has(key) ? 0 : bytes;
    for (const resource of resources) {
      const wanted = (cost[resource] ?? 0) + (resource === "hostBytes" ? fileBytes : 0);
      const limit = this.quota[resource];
      const used = this.used(resource);
      if (wanted === 0 || used + wanted <= limit) continue;
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot ${attempt}: ${this.label} has ${used} ${words[resource]}, ` +
          `and ${wanted} more would be over its limit of ${limit} (${this.source}.${resource})`,
      );
    }
  }

  #add(cost: Cost, sign: 1 | -1): void {
    const fileBytes = cost.file === undefined ? 0 : this.#countFile(cost.file, sign);
    for (const resource of resources) {
      const amount = (cost[resource] ?? 0) + (resource === "hostBytes" ? fileBytes : 0);
      if (amount === 0) continue;
      const used = this.used(resource) + sign * amount;
      if (used < 0) throw new RangeError(`${this.label} would have ${used} ${words[resource]}`);
      if (used === 0) this.#used.delete(resource);
      else this.#used.set(resource, used);
    }
  }

  /** Returns the bytes to add or subtract: those of the first cost with this file, or the last. */
  #countFile({ key, bytes }: SharedFile, sign: 1 | -1): number {
    const count = (this.#files.get(key) ?? 0) + sign;
    if (count < 0) throw new RangeError(`${this.label} would have ${count} times the file ${key}`);
    if (count === 0) this.#files.delete(key);
    else this.#files.set(key, count);
    return count === (sign === 1 ? 1 : 0) ? bytes : 0;
  }
}

/** A limit of messages a second: a bucket of one second's messages that refills over time. */
export class MessageRate {
  readonly #perSecond: number;
  #left: number;
  #atMs = 0;

  /** @param perSecond `Infinity` for no limit */
  constructor(perSecond: number) {
    this.#perSecond = perSecond;
    this.#left = perSecond;
  }

  /** Returns how many milliseconds too early a message is at this time. */
  waitMs(nowMs: number): number {
    if (this.#perSecond === Number.POSITIVE_INFINITY) return 0;
    this.#left = Math.min(
      this.#perSecond,
      this.#left + (Math.max(0, nowMs - this.#atMs) * this.#perSecond) / 1000,
    );
    this.#atMs = Math.max(this.#atMs, nowMs);
    return Math.max(0, ((1 - this.#left) * 1000) / this.#perSecond);
  }

  /** Counts a message that was in time. */
  count(): void {
    this.#left -= 1;
  }
}
