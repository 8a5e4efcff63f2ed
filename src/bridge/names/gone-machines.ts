/**
 * Removes from NATS what machines that are gone have left there. A bridge that is killed takes
 * nothing back, and its machine may never return, such as a node of a cluster that has shrunk.
 */
import { defaults } from "../../base/limits.js";
import { machineKey, nameKey, serviceKey } from "../../wire/machine-records.js";
import type { Directory } from "./directory.js";
import { inParallel } from "./in-parallel.js";
import type { NameStore } from "./name-store.js";

/** Records that one call removes. */
const TOGETHER = 1000;

interface LeftRecord {
  readonly key: string;
  readonly machine: string;
  readonly revision: number;
}

export class GoneMachines {
  readonly #own: string;
  readonly #store: NameStore;
  readonly #directory: Directory;
  readonly #log: (line: string) => void;
  readonly #sinceMs = new Map<string, number>();

  constructor(own: string, store: NameStore, directory: Directory, log: (line: string) => void) {
    this.#own = own;
    this.#store = store;
    this.#directory = directory;
    this.#log = log;
  }

  /**
   * Removes what is left of machines that have been gone for long. Call it now and then; the
   * directory must be current.
   * @returns whether all is removed; otherwise call it again
   */
  async tidy(): Promise<boolean> {
    const longGone = this.#longGone();
    if (longGone.length === 0 || !this.#isTidying()) return true;
    const machines: string[] = [];
    for (const machine of longGone) if (await this.#isGone(machine)) machines.push(machine);
    const left = this.#leftBy(new Set(machines));
    const records = left.slice(0, TOGETHER);
    for (const machine of machines) {
      const count = records.filter((record) => record.machine === machine).length;
      const age = `gone for ${defaults.goneMachineMs / 1000} s`;
      if (count > 0) this.#log(`removed: ${count} records of machine "${machine}", ${age}`);
    }
    const remove = ({ key, revision }: LeftRecord) => this.#store.remove(key, revision);
    const isRemoved = await inParallel(records.map((record) => () => remove(record)));
    return isRemoved && records.length === left.length;
  }

  #longGone(): readonly string[] {
    const nowMs = performance.now();
    const gone = this.#directory
      .machineNames()
      .filter((name) => name !== this.#own && this.#directory.versionOf(name) === undefined);
    for (const machine of this.#sinceMs.keys())
      if (!gone.includes(machine)) this.#sinceMs.delete(machine);
    for (const machine of gone) if (!this.#sinceMs.has(machine)) this.#sinceMs.set(machine, nowMs);
    return gone.filter(
      (machine) => nowMs - (this.#sinceMs.get(machine) ?? nowMs) >= defaults.goneMachineMs,
    );
  }

  /** The directory lacks a machine also if its record makes no sense or is beyond a limit. */
  async #isGone(machine: string): Promise<boolean> {
    return (await this.#store.read(machineKey(machine)))?.value === undefined;
  }

  /** One bridge is enough: the one whose machine comes first. */
  #isTidying(): boolean {
    const names = this.#directory.machines().map(({ record }) => record.machine);
    return names.every((name) => this.#own <= name);
  }

  #leftBy(machines: ReadonlySet<string>): readonly LeftRecord[] {
    const directory = this.#directory;
    const names = directory.entries().map(({ record: { name, machine }, revision }) => ({
      ...{ key: nameKey(name), machine, revision },
    }));
    const services = directory.services().map(({ record: { service, machine }, revision }) => ({
      ...{ key: serviceKey(service, machine), machine, revision },
    }));
    const others = [...directory.others].map(([key, { record, revision }]) => ({
      ...{ key, machine: record.machine, revision },
    }));
    return [...names, ...services, ...others].filter(({ machine }) => machines.has(machine));
  }
}
