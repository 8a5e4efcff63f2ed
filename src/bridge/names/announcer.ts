/**
 * Writes this machine's names to NATS, and removes those that have ended. Create-if-absent decides
 * if two machines have the same name: the later one is told, and tries again when the name is free.
 */
import {
  decodeName,
  encodeRecord,
  machineKey,
  type NameRecord,
  nameKey,
} from "../../wire/machine-records.js";
import { VersionMismatch } from "../../wire/machines-version.js";
import { peerGone } from "../link/peer-gone.js";
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
  /** Undefined before the first look at the hub. */
  #offered: Map<string, NameRecord> | undefined;

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

  /**
   * The record that this machine announces under a name. Another machine may read it in NATS before
   * this one knows that it is written.
   * @throws PEER_GONE while it is not known yet, so a copy that the bridge before this one began
   * waits as if no bridge were there
   */
  offered(name: string): NameRecord | undefined {
    if (this.#offered !== undefined) return this.#offered.get(name);
    throw peerGone(this.#machine, "its bridge has started, and does not know its names yet");
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
    const removals = [
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
    ];
    const writes = [...wanted.values()]
      .filter((record) => !this.#isWritten(record))
      .map((record) => () => this.#write(record, refused));
    // First, because other bridges leave out a name for which they have no room yet.
    const isRemoved = await inParallel(removals);
    const isWritten = await inParallel(writes);
    this.#refused = refused;
    return isRemoved && isWritten;
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
    if (this.#isWritten(record)) return true;
    const key = nameKey(name);
    const written = this.#directory.entry(name) ?? this.#directory.other(key);
    if (written !== undefined) {
      const { machine } = written.record;
      const isThere = this.#directory.versionOf(machine) !== undefined;
      return this.#writeOver(record, { machine, isThere, revision: written.revision }, refused);
    }
    const revision = await this.#store.create(key, encodeRecord(record));
    if (revision !== undefined) this.#log(`announced: "${name}"`);
    return revision !== undefined || this.#writeOverUnknown(record, refused);
  }

  /**
   * The key has a record that the directory lacks: it was written at this moment, makes no sense,
   * or is beyond a limit. WHY it must not be left to the next look: no name of this machine can be
   * fetched until all are written.
   */
  async #writeOverUnknown(record: NameRecord, refused: Map<string, string>): Promise<boolean> {
    const key = nameKey(record.name);
    const found = await this.#store.read(key);
    if (found?.value === undefined) return false;
    const { revision } = found;
    const other = ownerIn(key, found.value);
    // Nobody has the name by a record that makes no sense.
    if (other === undefined)
      return this.#writeOver(record, { machine: this.#machine, isThere: true, revision }, refused);
    const { machine, object } = other;
    if (machine === this.#machine && object === record.object) return true;
    const isThere = (await this.#store.read(machineKey(machine)))?.value !== undefined;
    return this.#writeOver(record, { machine, isThere, revision }, refused);
  }

  async #writeOver(
    record: NameRecord,
    { machine, isThere, revision }: WrittenRecord,
    refused: Map<string, string>,
  ): Promise<boolean> {
    const { name } = record;
    // A machine that is gone has lost its names to the first that wants them.
    if (machine !== this.#machine && isThere) {
      if (this.#refused.get(name) !== machine)
        this.#log(`not announced: "${name}", because machine "${machine}" announced it before`);
      refused.set(name, machine);
      this.#offered?.delete(name);
      return true;
    }
    const next = await this.#store.update(nameKey(name), encodeRecord(record), revision);
    if (next !== undefined) this.#log(`announced: "${name}"`);
    return next !== undefined;
  }
}

/** The record under a name's key in NATS. */
interface WrittenRecord {
  readonly machine: string;
  /** Whether a bridge of that machine runs. */
  readonly isThere: boolean;
  readonly revision: number;
}

/** Which machine and object a record is of. Undefined if it makes no sense. */
function ownerIn(
  key: string,
  bytes: Uint8Array,
): { readonly machine: string; readonly object?: number } | undefined {
  try {
    return decodeName(key, bytes);
  } catch (error) {
    if (!(error instanceof VersionMismatch)) return undefined;
    const { machine } = error.other;
    return machine === undefined ? undefined : { machine };
  }
}
