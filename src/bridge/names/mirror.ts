/**
 * What NATS has, as far as this bridge keeps it. Limits what other machines may have in it. What is
 * beyond a limit is left out until it is written again.
 */
import { CudaIpcError } from "../../base/errors.js";
import { limits } from "../../base/limits.js";
import {
  decodeMachine,
  decodeName,
  decodeService,
  type MachineRecord,
  machineKey,
  type NameRecord,
  type ServiceRecord,
} from "../../wire/machine-records.js";
import { type OtherVersion, VersionMismatch } from "../../wire/machines-version.js";
import type { NameEntry } from "./name-store.js";
import { SortedMap } from "./sorted-map.js";

interface Known<Record> {
  readonly record: Record;
  readonly revision: number;
}

export type KnownMachine = Known<MachineRecord>;
export type KnownName = Known<NameRecord>;
export type KnownService = Known<ServiceRecord>;
/** A record of a bridge of another version. */
export type KnownOther = Known<OtherVersion & { readonly machine: string }>;

type MirrorLimits = {
  readonly [Name in "knownMachinesMax" | "namesPerMachineMax" | "knownNamesMax"]: number;
};

export class Mirror {
  readonly machines = new Map<string, KnownMachine>();
  readonly names = new SortedMap<KnownName>();
  /** By their keys. */
  readonly services = new Map<string, KnownService>();
  /** Records of other versions, by their keys. */
  readonly others = new Map<string, KnownOther>();
  /** The machine of this bridge. Limits of all machines together do not keep it out. */
  readonly #own: string;
  readonly #max: MirrorLimits;
  /** How many names and services each machine has. */
  readonly #counts = new Map<string, number>();
  /** How many names alone. */
  readonly #nameCounts = new Map<string, number>();

  constructor(own: string, max: MirrorLimits = limits) {
    this.#own = own;
    this.#max = max;
  }

  /**
   * Returns false if a machine has only renewed its record.
   * @throws PROTOCOL_MISMATCH after it has kept what a record of another version tells
   * @throws INVALID_MESSAGE, INVALID_DESCRIPTOR, LIMIT_EXCEEDED, and then forgets the key
   */
  apply(entry: NameEntry): boolean {
    const { key, revision, value } = entry;
    this.#remove(this.others, key);
    try {
      if (value !== undefined) return this.#decode(key, value, revision);
      this.forget(key);
      return true;
    } catch (error) {
      this.forget(key);
      if (error instanceof VersionMismatch) this.#keepOther(key, error.other, revision);
      throw error;
    }
  }

  /** Returns false if a machine has only renewed its record. */
  #decode(key: string, value: Uint8Array, revision: number): boolean {
    if (key.startsWith("machine.")) {
      const record = decodeMachine(key, value);
      this.#checkMachine(record.machine);
      const earlier = this.machines.get(record.machine)?.record;
      this.machines.set(record.machine, { record, revision });
      return earlier?.instance !== record.instance || earlier.ready !== record.ready;
    }
    if (key.startsWith("name.")) {
      const record = decodeName(key, value);
      this.#keep(key, this.names, record.name, { record, revision });
    } else if (key.startsWith("service.")) {
      const record = decodeService(key, value);
      this.#keep(key, this.services, key, { record, revision });
    }
    return true;
  }

  #keepOther(key: string, { machine, ...other }: OtherVersion, revision: number): void {
    const isOdd = key.startsWith("machine.") && key !== machineKey(machine ?? "");
    if (machine !== undefined && !isOdd)
      this.#keep(key, this.others, key, { record: { ...other, machine }, revision });
  }

  /** The machines that are there, of any version, and those that are gone but have left records. */
  get machineNames(): readonly string[] {
    return [...new Set([...this.machines.keys(), ...this.#counts.keys()])].sort();
  }

  namesOf(machine: string): number {
    return this.#nameCounts.get(machine) ?? 0;
  }

  forget(key: string): void {
    const [kind, part = ""] = key.split(".", 2);
    const name = part.replaceAll(/=([0-9a-f]{2})/g, (_, hex: string) =>
      String.fromCharCode(Number.parseInt(hex, 16)),
    );
    if (kind === "machine") this.machines.delete(name);
    if (kind === "name") this.#remove(this.names, name);
    this.#remove(this.services, key);
    this.#remove(this.others, key);
  }

  #keep<Record extends { readonly machine: string }>(
    key: string,
    known: Map<string, Known<Record>>,
    name: string,
    entry: Known<Record>,
  ): void {
    const { machine } = entry.record;
    const earlier = known.get(name)?.record.machine;
    if (earlier !== machine) {
      this.#checkCount(key, machine);
      this.#count(known, machine, 1);
      if (earlier !== undefined) this.#count(known, earlier, -1);
    }
    known.set(name, entry);
  }

  #remove<Record extends { readonly machine: string }>(
    known: Map<string, Known<Record>>,
    name: string,
  ): void {
    const found = known.get(name);
    if (found === undefined) return;
    known.delete(name);
    this.#count(known, found.record.machine, -1);
  }

  #count(known: unknown, machine: string, change: number): void {
    add(this.#counts, machine, change);
    if (known === this.names) add(this.#nameCounts, machine, change);
  }

  #checkMachine(machine: string): void {
    if (this.machines.has(machine) || machine === this.#own) return;
    if (this.machines.size < this.#max.knownMachinesMax) return;
    const found = `${this.machines.size} are known, the limit (knownMachinesMax)`;
    throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot keep machine "${machine}": ${found}`);
  }

  #checkCount(key: string, machine: string): void {
    const count = this.#counts.get(machine) ?? 0;
    const all = this.names.size + this.services.size + this.others.size;
    const found =
      count >= this.#max.namesPerMachineMax
        ? `machine "${machine}" has ${count} names, the limit (namesPerMachineMax)`
        : machine !== this.#own && all >= this.#max.knownNamesMax
          ? `all machines have ${all} names, the limit (knownNamesMax)`
          : undefined;
    if (found !== undefined)
      throw new CudaIpcError("LIMIT_EXCEEDED", `Cannot keep ${key} of NATS: ${found}`);
  }
}

function add(counts: Map<string, number>, machine: string, change: number): void {
  const count = (counts.get(machine) ?? 0) + change;
  if (count === 0) counts.delete(machine);
  else counts.set(machine, count);
}
