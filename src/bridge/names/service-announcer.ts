/**
 * Writes to NATS of which services this machine has workers, and removes what has ended. Each
 * machine has keys of its own, so nobody is refused.
 */
import { encodeRecord, type ServiceRecord, serviceKey } from "../../wire/machine-records.js";
import { MACHINES_VERSION } from "../../wire/machines-version.js";
import type { Directory } from "./directory.js";
import { inParallel } from "./in-parallel.js";
import { leftBehind } from "./left-behind.js";
import type { NameStore } from "./name-store.js";

export class ServiceAnnouncer {
  readonly #machine: string;
  readonly #store: NameStore;
  readonly #directory: Directory;
  readonly #log: (line: string) => void;

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

  /**
   * Makes NATS say exactly this of this machine. The directory must be current.
   * @returns whether all is written; otherwise something changed meanwhile, so call it again
   */
  announce(wanted: ReadonlySet<string>): Promise<boolean> {
    const known = this.#directory.services().filter(({ record }) => this.#isOwn(record));
    const written = new Set(known.map(({ record }) => record.service));
    const ended = known.filter(({ record }) => !wanted.has(record.service));
    const begun = [...wanted].filter((service) => !written.has(service));
    const wantedKeys = [...wanted].map((service) => serviceKey(service, this.#machine));
    return inParallel([
      ...leftBehind(this.#directory, this.#machine, "service.", wantedKeys).map(
        ({ key, revision }) =>
          () =>
            this.#store.remove(key, revision),
      ),
      ...ended.map(
        ({ record, revision }) =>
          () =>
            this.#remove(record.service, revision),
      ),
      ...begun.map((service) => () => this.#write(service)),
    ]);
  }

  #isOwn({ machine }: ServiceRecord): boolean {
    return machine === this.#machine;
  }

  async #remove(service: string, revision: number): Promise<boolean> {
    const isRemoved = await this.#store.remove(serviceKey(service, this.#machine), revision);
    if (isRemoved) this.#log(`no longer announced: service "${service}"`);
    return isRemoved;
  }

  async #write(service: string): Promise<boolean> {
    const machine = this.#machine;
    const record = { v: MACHINES_VERSION, service, machine } as const;
    const key = serviceKey(service, machine);
    const value = encodeRecord(record);
    const earlier = this.#directory.other(key);
    const revision =
      earlier === undefined
        ? await this.#store.create(key, value)
        : await this.#store.update(key, value, earlier.revision);
    if (revision === undefined && earlier === undefined) return this.#writeOverUnknown(key, value);
    if (revision !== undefined) this.#log(`announced: service "${service}"`);
    return revision !== undefined;
  }

  /**
   * The key has a record that the directory lacks: it makes no sense, or is beyond a limit. It is
   * this machine's all the same.
   */
  async #writeOverUnknown(key: string, value: Uint8Array): Promise<boolean> {
    const found = await this.#store.read(key);
    if (found?.value === undefined) return false;
    if (Buffer.from(found.value).equals(value)) return true;
    return (await this.#store.update(key, value, found.revision)) !== undefined;
  }
}
