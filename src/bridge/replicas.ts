/**
 * Keeps the copies of other machines' objects in step with their originals, and fetches names that
 * are to be here always. The hub keeps the copies, so they outlive the bridge, and the next bridge
 * goes on with them.
 */
import { hasCode, messageOf } from "../base/errors.js";
import type { Hub } from "../client/hub.js";
import { linkNameOf } from "../service/service-names.js";
import type { NameRecord } from "../wire/machine-records.js";
import type { ObjectSummary } from "../wire/messages.js";
import type { Directory } from "./names/directory.js";
import type { FetchTable } from "./transfer/fetch-table.js";
import { isCopyOf, originalOf } from "./transfer/own-copy.js";

export interface ReplicaRules {
  readonly hub: Hub;
  readonly machine: string;
  /** The bridge's own user, as the hub numbers it. */
  readonly uid: number;
  readonly directory: Directory;
  readonly fetches: FetchTable;
  /** Keep a copy when its original is removed. */
  readonly keep: boolean;
  /** Which names of other machines to fetch before anybody here asks. */
  readonly isPulled: (name: string) => boolean;
  readonly log: (line: string) => void;
}

export type Step =
  | { readonly do: "nothing" }
  | { readonly do: "remove" }
  | { readonly do: "fetch"; readonly record: NameRecord };

/** After a fetch or a removal failed, the pause until the same is tried again unasked. */
const RETRY_MS = 30_000;

/**
 * What to do about a copy. A machine that is gone has removed nothing: an object is taken for
 * removed only if the bridge of its machine runs and does not announce it. Who holds a copy that is
 * removed keeps it: a reader goes on to read its channel.
 */
export function stepFor(
  replica: {
    readonly name: string;
    readonly machine: string;
    readonly object: number;
    readonly isChannel: boolean;
  },
  directory: Pick<Directory, "find" | "entry" | "isReady" | "isCurrent">,
  keep: boolean,
): Step {
  if (!directory.isCurrent) return { do: "nothing" };
  const record = directory.find(replica.name);
  if (record !== undefined) {
    if (isCopyOf(replica, record)) return { do: "nothing" };
    // A channel is carried once somebody opens it, so it is not fetched in another's stead.
    const isFetched = !replica.isChannel && record.descriptor.content.kind !== "channel";
    return isFetched ? { do: "fetch", record } : { do: "remove" };
  }
  const isUnknown = directory.entry(replica.name) === undefined;
  const isRemoved = isUnknown && directory.isReady(replica.machine);
  return { do: isRemoved && !keep ? "remove" : "nothing" };
}

export class Replicas {
  readonly #rules: ReplicaRules;
  readonly #failed = new Map<string, { readonly object: number; readonly atMs: number }>();

  constructor(rules: ReplicaRules) {
    this.#rules = rules;
  }

  /** @param objects everything on this machine's hub */
  async keepInStep(objects: readonly ObjectSummary[]): Promise<void> {
    const { uid, directory, keep } = this.#rules;
    for (const local of objects) {
      const { name, object, published, descriptor } = local;
      const original = originalOf(local, uid);
      if (original === undefined || !published) continue;
      const isChannel = descriptor.content.kind === "channel";
      // The links of services end with their workers and clients. Nobody announces them.
      if (isChannel && linkNameOf(name) !== undefined) continue;
      const step = stepFor({ name, ...original, isChannel }, directory, keep);
      if (step.do === "remove") await this.#remove(name, object);
      if (step.do === "fetch") this.#fetch(step.record);
    }
    const here = new Set(objects.map(({ name }) => name));
    for (const { record } of directory.entries())
      if (this.#isMissing(record, here)) this.#fetch(record);
  }

  #isMissing({ name, machine, descriptor }: NameRecord, here: ReadonlySet<string>): boolean {
    const { directory, isPulled, machine: own } = this.#rules;
    if (descriptor.content.kind === "channel") return false;
    return machine !== own && !here.has(name) && isPulled(name) && directory.isReady(machine);
  }

  #fetch(record: NameRecord): void {
    const { name, object } = record;
    if (this.#hasFailed(name, object)) return;
    this.#rules.fetches.refresh(record)?.then(
      () => this.#failed.delete(name),
      () => this.#fails(name, object),
    );
  }

  /** WHY it throws nothing: one copy must not keep the bridge from all the rest. */
  async #remove(name: string, object: number): Promise<void> {
    const { hub, log } = this.#rules;
    if (this.#hasFailed(name, object)) return;
    try {
      // By its number, because the name may be another object's by now.
      await hub.remove(name, { object });
      log(`removed: "${name}", because its original was removed or replaced`);
    } catch (error) {
      if (hasCode(error, "NOT_FOUND") || hasCode(error, "STALE_HANDLE")) return;
      this.#fails(name, object);
      log(messageOf(error));
    }
  }

  #fails(name: string, object: number): void {
    this.#failed.set(name, { object, atMs: performance.now() });
  }

  #hasFailed(name: string, object: number): boolean {
    const failed = this.#failed.get(name);
    return failed?.object === object && performance.now() - failed.atMs < RETRY_MS;
  }
}
