/**
 * Keeps the copies of other machines' objects in step with their originals, and fetches names that
 * are to be here always. The hub keeps the copies, so they outlive the bridge, and the next bridge
 * goes on with them.
 */
import { hasCode } from "../base/errors.js";
import type { Hub } from "../client/hub.js";
import type { NameRecord } from "../wire/machine-records.js";
import type { ObjectSummary } from "../wire/messages.js";
import type { Directory } from "./names/directory.js";
import { type FetchTable, isCopyOf } from "./transfer/fetch-table.js";

export interface ReplicaRules {
  readonly hub: Hub;
  readonly machine: string;
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

/** After a fetch failed, the pause until the same object is fetched again without being asked. */
const RETRY_MS = 30_000;

/**
 * What to do about a copy. A machine that is gone has removed nothing: an object is taken for
 * removed only if the bridge of its machine runs and does not announce it.
 */
export function stepFor(
  replica: { readonly name: string; readonly machine: string; readonly object: number },
  directory: Pick<Directory, "find" | "entry" | "isReady" | "isCurrent">,
  keep: boolean,
): Step {
  if (!directory.isCurrent) return { do: "nothing" };
  const record = directory.find(replica.name);
  if (record !== undefined)
    return isCopyOf(replica, record) ? { do: "nothing" } : { do: "fetch", record };
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
    const { directory, keep } = this.#rules;
    for (const { name, object, published, descriptor } of objects) {
      const { replicaOf, content } = descriptor;
      // A channel ends with its writer, or when nobody reads it.
      if (replicaOf === undefined || !published || content.kind === "channel") continue;
      const step = stepFor({ name, ...replicaOf }, directory, keep);
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
    const failed = this.#failed.get(name);
    if (failed?.object === object && performance.now() - failed.atMs < RETRY_MS) return;
    this.#rules.fetches.refresh(record)?.then(
      () => this.#failed.delete(name),
      () => this.#failed.set(name, { object, atMs: performance.now() }),
    );
  }

  async #remove(name: string, object: number): Promise<void> {
    const { hub, log } = this.#rules;
    try {
      // By its number, because the name may be another object's by now.
      await hub.remove(name, { object });
      log(`removed: "${name}", because its original was removed`);
    } catch (error) {
      if (!hasCode(error, "NOT_FOUND") && !hasCode(error, "STALE_HANDLE")) throw error;
    }
  }
}
