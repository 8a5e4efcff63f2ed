/** The names of several bridges in this process, without a server. Time passes when told to. */

import { CudaIpcError } from "../../../src/base/errors.js";
import type {
  NameEntry,
  NameStore,
  NameWatcher,
  WriteOptions,
} from "../../../src/bridge/names/name-store.js";

interface Stored extends NameEntry {
  readonly endsMs: number;
}

export class MemoryNames {
  readonly #entries = new Map<string, Stored>();
  readonly #stores = new Set<MemoryStore>();
  readonly #served = new Map<string, (bytes: Uint8Array) => Promise<Uint8Array>>();
  #revision = 0;
  #nowMs = 0;

  connect(): MemoryStore {
    const store = new MemoryStore(this);
    this.#stores.add(store);
    return store;
  }

  /** Lets time pass, so that keys end. */
  pass(ms: number): void {
    this.#nowMs += ms;
    for (const { key, value, endsMs } of [...this.#entries.values()])
      if (value !== undefined && endsMs <= this.#nowMs) this.#set(key, undefined, Infinity);
  }

  /** As a server that lost its memory. Watchers begin anew. */
  forget(): void {
    this.#entries.clear();
    for (const store of this.#stores) this.replay(store);
  }

  /** @returns undefined if the key is not of that revision; 0 stands for no key */
  write(
    key: string,
    value: Uint8Array | undefined,
    expected: number,
    { ttlMs }: WriteOptions,
  ): number | undefined {
    const found = this.#entries.get(key);
    const isAbsent = found?.value === undefined;
    if (expected === 0 ? !isAbsent : found?.revision !== expected) return undefined;
    return this.#set(key, value, ttlMs === undefined ? Infinity : this.#nowMs + ttlMs);
  }

  read(key: string): NameEntry | undefined {
    return this.#entries.get(key);
  }

  /** Of all entries that were not removed. */
  keys(): string[] {
    return [...this.#entries.values()].flatMap(({ key, value }) => (value ? [key] : []));
  }

  serve(subject: string, answer: (bytes: Uint8Array) => Promise<Uint8Array>): void {
    this.#served.set(subject, answer);
  }

  ask(subject: string, bytes: Uint8Array): Promise<Uint8Array> {
    const answer = this.#served.get(subject);
    if (answer === undefined) throw new CudaIpcError("PEER_GONE", `nobody serves ${subject}`);
    return answer(bytes);
  }

  replay({ watcher }: MemoryStore): void {
    watcher?.onRestart();
    for (const entry of [...this.#entries.values()]) watcher?.onEntry(entry);
    watcher?.onCurrent();
  }

  #set(key: string, value: Uint8Array | undefined, endsMs: number): number {
    this.#revision += 1;
    const entry = { key, value, revision: this.#revision, endsMs };
    this.#entries.delete(key);
    this.#entries.set(key, entry);
    for (const { watcher, isCut } of this.#stores) if (!isCut) watcher?.onEntry(entry);
    return this.#revision;
  }
}

export class MemoryStore implements NameStore {
  readonly #names: MemoryNames;
  watcher: NameWatcher | undefined;
  /** Whether NATS does not answer this bridge. */
  isCut = false;

  constructor(names: MemoryNames) {
    this.#names = names;
  }

  get awaySinceMs(): number | undefined {
    return this.isCut ? 0 : undefined;
  }

  async create(key: string, value: Uint8Array, options: WriteOptions = {}) {
    return this.#names.write(key, value, 0, options);
  }

  async update(key: string, value: Uint8Array, revision: number, options: WriteOptions = {}) {
    return this.#names.write(key, value, revision, options);
  }

  async remove(key: string, revision: number): Promise<boolean> {
    return this.#names.write(key, undefined, revision, {}) !== undefined;
  }

  async read(key: string): Promise<NameEntry | undefined> {
    return this.#names.read(key);
  }

  async watch(watcher: NameWatcher): Promise<void> {
    this.watcher = watcher;
    this.#names.replay(this);
  }

  watchAnew(): void {
    this.#names.replay(this);
  }

  async ask(subject: string, bytes: Uint8Array): Promise<Uint8Array> {
    return this.#names.ask(subject, bytes);
  }

  serve(subject: string, answer: (bytes: Uint8Array) => Promise<Uint8Array>): void {
    this.#names.serve(subject, answer);
  }

  /** The bridge is cut off from NATS, and sees everything when it is back. */
  cut(isCut: boolean): void {
    this.isCut = isCut;
    if (!isCut) this.#names.replay(this);
  }

  async close(): Promise<void> {
    this.watcher = undefined;
  }
}
