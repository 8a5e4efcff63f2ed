/**
 * A mirror of what all bridges wrote to NATS: which machines are there, which has which name, and
 * which have workers of a service.
 * Pure: entries go in, answers come out. Entries that make no sense are left out, and told once.
 */
import { messageOf } from "../../base/errors.js";
import {
  decodeMachine,
  decodeName,
  decodeService,
  type MachineRecord,
  type NameRecord,
  type ServiceRecord,
} from "../../wire/machine-records.js";
import type { NameEntry, NameWatcher } from "./name-store.js";

interface Known<Record> {
  readonly record: Record;
  readonly revision: number;
}

export type KnownMachine = Known<MachineRecord>;
export type KnownName = Known<NameRecord>;
export type KnownService = Known<ServiceRecord>;

class Mirror {
  readonly machines = new Map<string, KnownMachine>();
  readonly names = new Map<string, KnownName>();
  /** By their keys. */
  readonly services = new Map<string, KnownService>();
}

export class Directory implements NameWatcher {
  readonly #log: (line: string) => void;
  readonly #listeners = new Set<() => void>();
  #mirror = new Mirror();
  /** The mirror that is being built after a restart. Until it is complete the old one answers. */
  #next: Mirror | undefined;
  #isCurrent = false;
  #told = new Set<string>();

  constructor(log: (line: string) => void) {
    this.#log = log;
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

  services(): readonly KnownService[] {
    return [...this.#mirror.services.values()];
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
    this.#next = new Mirror();
  }

  onEntry(entry: NameEntry): void {
    const mirror = this.#next ?? this.#mirror;
    try {
      apply(mirror, entry);
      this.#told.delete(entry.key);
    } catch (error) {
      forget(mirror, entry.key);
      if (!this.#told.has(entry.key)) this.#log(messageOf(error));
      this.#told.add(entry.key);
    }
    if (this.#next === undefined) this.#changed();
  }

  onCurrent(): void {
    if (this.#next !== undefined) this.#mirror = this.#next;
    this.#next = undefined;
    this.#isCurrent = true;
    this.#changed();
  }

  #changed(): void {
    for (const listener of [...this.#listeners]) listener();
  }
}

/** @throws INVALID_MESSAGE, PROTOCOL_MISMATCH, INVALID_DESCRIPTOR */
function apply(mirror: Mirror, { key, revision, value }: NameEntry): void {
  if (value === undefined) forget(mirror, key);
  else if (key.startsWith("machine.")) {
    const record = decodeMachine(key, value);
    mirror.machines.set(record.machine, { record, revision });
  } else if (key.startsWith("name.")) {
    const record = decodeName(key, value);
    mirror.names.set(record.name, { record, revision });
  } else if (key.startsWith("service."))
    mirror.services.set(key, { record: decodeService(key, value), revision });
}

function forget(mirror: Mirror, key: string): void {
  const [kind, part = ""] = key.split(".", 2);
  const name = part.replaceAll(/=([0-9a-f]{2})/g, (_, hex: string) =>
    String.fromCharCode(Number.parseInt(hex, 16)),
  );
  if (kind === "machine") mirror.machines.delete(name);
  if (kind === "name") mirror.names.delete(name);
  mirror.services.delete(key);
}
