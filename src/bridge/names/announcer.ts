/**
 * Writes this machine's names to NATS, and removes those that have ended. Create-if-absent decides
 * if two machines have the same name: the later one is told, and tries again when the name is free.
 */
import { encodeRecord, type NameRecord, nameKey } from "../../wire/machine-records.js";
import type { Directory } from "./directory.js";
import { inParallel } from "./in-parallel.js";
import { leftBehind } from "./left-behind.js";
import type { NameStore } from "./name-store.js";

export interface RefusedName {
  readonly name: string;
  readonly machine: string;
}

export class Announcer {
  readonly #machine: string;
  readonly #store: NameStore;
  readonly #directory: Directory;
  readonly #log: (line: string) => void;
  #refused = new Map<string, string>();
  #offered = new Map<string, NameRecord>();

  constructor(
    machine: string,
    store: NameStore,
    directory: Directory,
    log: (line: string) => void,
  ) {
    this.#machine = machine;
    this.#store = store;
    this.#directory = directory;
    this.#log = log;
  }

  /** Names of this machine that another one announced before. */
  get refused(): readonly RefusedName[] {
    return [...this.#refused].map(([name, machine]) => ({ name, machine }));
  }

  /** What this machine announces under a name. Others may hear of it before NATS tells this one. */
  offered(name: string): NameRecord | undefined {
    return this.#offered.get(name);
  }

  /**
   * Makes NATS say exactly this of this machine. The directory must be current.
   * @returns whether all is written; otherwise something changed meanwhile, so call it again
   */
  async announce(wanted: ReadonlyMap<string, NameRecord>): Promise<boolean> {
    const refused = new Map<string, string>();
    this.#offered = new Map(wanted);
    const ended = this.#directory
      .entries()
      .filter(({ record }) => record.machine === this.#machine && !wanted.has(record.name));
    const writes = [
      ...ended.map(
        ({ record, revision }) =>
          () =>
            this.#remove(record.name, revision),
      ),
      ...leftBehind(this.#directory, this.#machine, "name.", [...wanted.keys()].map(nameKey)).map(
        ({ key, revision }) =>
          () =>
            this.#store.remove(key, revision),
      ),
      ...[...wanted.values()]
        .filter((record) => !this.#isWritten(record))
        .map((record) => () => this.#write(record, refused)),
    ];
    const isWritten = await inParallel(writes);
    this.#refused = refused;
    return isWritten;
  }

  #isWritten({ name, object }: NameRecord): boolean {
    const record = this.#directory.entry(name)?.record;
    return record?.machine === this.#machine && record.object === object;
  }

  async #remove(name: string, revision: number): Promise<boolean> {
    const isRemoved = await this.#store.remove(nameKey(name), revision);
    if (isRemoved) this.#log(`no longer announced: "${name}"`);
    return isRemoved;
  }

  async #write(record: NameRecord, refused: Map<string, string>): Promise<boolean> {
    const { name } = record;
    const found = this.#directory.entry(name);
    if (this.#isWritten(record)) return true;
    const key = nameKey(name);
    const written = found ?? this.#directory.other(key);
    const owner = written?.record.machine ?? this.#machine;
    // A machine that is gone has lost its names to the first that wants them.
    if (owner !== this.#machine && this.#directory.versionOf(owner) !== undefined) {
      if (this.#refused.get(name) !== owner)
        this.#log(`not announced: "${name}", because machine "${owner}" announced it before`);
      refused.set(name, owner);
      this.#offered.delete(name);
      return true;
    }
    const value = encodeRecord(record);
    const revision =
      written === undefined
        ? await this.#store.create(key, value)
        : await this.#store.update(key, value, written.revision);
    if (revision !== undefined) this.#log(`announced: "${name}"`);
    return revision !== undefined;
  }
}
