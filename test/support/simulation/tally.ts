/**
 * The model's accounts: what a client, a user and the hub use of each resource, and how many
 * messages they may send.
 */
import type { Quota } from "../../../src/hub/limits/quota.js";

export type Uses = Readonly<Partial<Record<Charged, number>>> & {
  /** A file that others may use, too. A tally pays for it once. */
  readonly file?: { readonly inode: string; readonly bytes: number } | undefined;
};

const ORDER = [
  "clients",
  "objects",
  "descriptors",
  "leases",
  "waitingOpens",
  "hostBytes",
  "deviceBytes",
] as const;

/** What the core itself charges. The server charges messages that are on their way. */
type Charged = (typeof ORDER)[number];

/** Why something is refused, in the words of the error. */
export interface Refusal {
  readonly limit: string;
  readonly found: string;
}

export class Tally {
  /** Where its quota is set, in the words of errors. */
  readonly source: string;
  readonly quota: Quota;
  readonly used: Record<Charged, number> = {
    clients: 0,
    objects: 0,
    descriptors: 0,
    leases: 0,
    waitingOpens: 0,
    hostBytes: 0,
    deviceBytes: 0,
  };
  readonly #users: string[] = [];
  #messages: number;
  #atMs = 0;

  constructor(source: string, quota: Quota) {
    this.source = source;
    this.quota = quota;
    this.#messages = quota.messagesPerSecond;
  }

  add(uses: Uses, sign: 1 | -1 = 1): void {
    const { file } = uses;
    if (file !== undefined && sign < 0) this.#users.splice(this.#users.indexOf(file.inode), 1);
    const ofFile = this.#bytesOf(file);
    if (file !== undefined && sign > 0) this.#users.push(file.inode);
    for (const resource of ORDER) {
      const amount = (uses[resource] ?? 0) + (resource === "hostBytes" ? ofFile : 0);
      this.used[resource] += sign * amount;
      if (this.used[resource] < 0)
        throw new Error(`the model has ${this.used[resource]} ${resource}`);
    }
  }

  /** The first of its limits that these uses would exceed. */
  refusal(uses: Uses): Refusal | undefined {
    for (const resource of ORDER) {
      const ofFile = resource === "hostBytes" ? this.#bytesOf(uses.file) : 0;
      const amount = (uses[resource] ?? 0) + ofFile;
      if (amount > 0 && this.used[resource] + amount > this.quota[resource])
        return { limit: `${this.source}.${resource}`, found: ` has ${this.used[resource]} ` };
    }
    return undefined;
  }

  /** What a file costs beside those that are counted. */
  #bytesOf(file: Uses["file"]): number {
    return file === undefined || this.#users.includes(file.inode) ? 0 : file.bytes;
  }

  /** How long to wait until the next message; 0 if it may come now. */
  waitMs(nowMs: number): number {
    const rate = this.quota.messagesPerSecond;
    if (rate === Number.POSITIVE_INFINITY) return 0;
    this.#messages = Math.min(rate, this.#messages + ((nowMs - this.#atMs) * rate) / 1000);
    this.#atMs = nowMs;
    return this.#messages >= 1 ? 0 : ((1 - this.#messages) * 1000) / rate;
  }

  forgetMessages(): void {
    this.#messages = this.quota.messagesPerSecond;
    this.#atMs = 0;
  }

  countMessage(): void {
    this.#messages -= 1;
  }
}
