/**
 * A mirror of what all bridges wrote to NATS: which machines are there, which has which name, and
 * which have workers of a service.
 * Pure: entries go in, answers come out. Entries that make no sense are left out, and told once.
 */
import { messageOf } from "../../base/errors.js";
import { kindOfMessage, RepeatedLines, restOf } from "../../base/repeated-lines.js";
import {
  machineKey,
  type NameRecord,
  nameKey,
  serviceKey,
  servicePrefix,
} from "../../wire/machine-records.js";
import { VersionMismatch } from "../../wire/machines-version.js";
import {
  type KnownMachine,
  type KnownName,
  type KnownOther,
  type KnownService,
  Mirror,
} from "./mirror.js";
import type { NameEntry, NameWatcher } from "./name-store.js";

/** Keys of bad records that are told once. Those of others are told again when they change. */
const TOLD_MAX = 1000;

interface BadRecord {
  readonly key: string;
  readonly message: string;
}

export class Directory implements NameWatcher {
  readonly #own: string;
  readonly #badRecords: RepeatedLines<BadRecord>;
  readonly #listeners = new Set<() => void>();
  #mirror: Mirror;
  /** The mirror that is being built after a restart. Until it is complete the old one answers. */
  #next: Mirror | undefined;
  #isCurrent = false;
  readonly #told = new Set<string>();

  /** @param own the machine of this bridge */
  constructor(own: string, log: (line: string) => void) {
    this.#own = own;
    this.#mirror = new Mirror(own);
    this.#badRecords = new RepeatedLines({
      kindOf: ({ key, message }) => kindOfMessage(message.replace(key, "")),
      write: ({ message }) => log(message),
      writeRest: (count, { message }) => log(restOf(count, message)),
    });
  }

  /** False until it has all that was there at the last restart. */
  get isCurrent(): boolean {
    return this.#isCurrent;
  }

  /** Calls the listener after each change. Returns a function that ends the calls. */
  onChange(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  machine(name: string): KnownMachine | undefined {
    return this.#mirror.machines.get(name);
  }

  machines(): readonly KnownMachine[] {
    return [...this.#mirror.machines.values()];
  }

  /** What is written under a name, whether or not its machine is there. */
  entry(name: string): KnownName | undefined {
    return this.#mirror.names.get(name);
  }

  entries(): readonly KnownName[] {
    return [...this.#mirror.names.values()];
  }

  /** The entries of the names after this one, in the order of names. */
  entriesAfter(name: string | undefined): Iterable<KnownName> {
    return this.#mirror.names.after(name);
  }

  /** See `Mirror.machineNames`. */
  machineNames(): readonly string[] {
    return this.#mirror.machineNames;
  }

  /** How many names a machine has announced. */
  namesOf(machine: string): number {
    return this.#mirror.namesOf(machine);
  }

  services(): readonly KnownService[] {
    return [...this.#mirror.services.values()];
  }

  /** Whether a machine has announced workers of a service. */
  hasService(service: string, machine: string): boolean {
    return this.#mirror.services.has(serviceKey(service, machine));
  }

  /** The record of another version that a key has. */
  other(key: string): KnownOther | undefined {
    return this.#mirror.others.get(key);
  }

  /** Records of other versions, by their keys. */
  get others(): ReadonlyMap<string, KnownOther> {
    return this.#mirror.others;
  }

  /** The version of a machine's bridge. Undefined if it has none. */
  versionOf(machine: string): number | undefined {
    return this.machine(machine)?.record.v ?? this.other(machineKey(machine))?.record.version;
  }

  /** Why a name cannot be used, if it was announced by a bridge of another version that runs. */
  mismatchOf(attempt: string, name: string): VersionMismatch | undefined {
    return this.#mismatch(attempt, this.other(nameKey(name)));
  }

  /** The same for a service that no bridge of this version announces. */
  mismatchOfService(attempt: string, service: string): VersionMismatch | undefined {
    const prefix = servicePrefix(service);
    const keys = [...this.others.keys()].filter((key) => key.startsWith(prefix));
    return keys.map((key) => this.#mismatch(attempt, this.other(key))).find((it) => it);
  }

  /** The machines that have workers of a service, are there, and have told all that they have. */
  machinesOf(service: string): readonly string[] {
    return this.services()
      .filter(({ record }) => record.service === service && this.isReady(record.machine))
      .map(({ record }) => record.machine);
  }

  /** The record of a name that can be fetched: its machine is there, and has told all its names. */
  find(name: string): NameRecord | undefined {
    const record = this.entry(name)?.record;
    return record !== undefined && this.isReady(record.machine) ? record : undefined;
  }

  isReady(machine: string): boolean {
    return this.machine(machine)?.record.ready === true;
  }

  onRestart(): void {
    this.#isCurrent = false;
    this.#next = new Mirror(this.#own);
  }

  onEntry(entry: NameEntry): void {
    const mirror = this.#next ?? this.#mirror;
    const otherVersion = mirror.others.get(entry.key)?.record.version;
    let isNews = true;
    try {
      isNews = mirror.apply(entry);
      this.#told.delete(entry.key);
    } catch (error) {
      const isMismatch = error instanceof VersionMismatch;
      // A bridge of another version renews the record of its machine, too.
      if (isMismatch && error.other.version === otherVersion) isNews = false;
      const remedy = isMismatch ? `. ${error.remedy}` : "";
      this.#tell(entry.key, `${messageOf(error)}${remedy}`);
    }
    if (this.#next === undefined && isNews) this.#changed();
  }

  onCurrent(): void {
    if (this.#next !== undefined) this.#mirror = this.#next;
    this.#next = undefined;
    this.#isCurrent = true;
    this.#changed();
  }

  #mismatch(attempt: string, found: KnownOther | undefined): VersionMismatch | undefined {
    if (found === undefined || this.other(machineKey(found.record.machine)) === undefined)
      return undefined;
    return new VersionMismatch(attempt, found.record);
  }

  #tell(key: string, message: string): void {
    if (this.#told.has(key)) return;
    if (this.#told.size < TOLD_MAX) this.#told.add(key);
    this.#badRecords.add({ key, message });
  }

  #changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}
