/**
 * The descriptors that a service manager or the keeper has for the next hub, in case this one dies. A manager that is busy is
 * told later, in the same order; one that is replaced is told everything again.
 */
import { releaseAll } from "../base/scope.js";
import { FdWatch } from "../os/fd-watch.js";
import { inspectMemoryFile, reopenReadOnly, reopenWritable } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { ServiceManager } from "../os/service-manager.js";
import { describeError } from "./client-connections.js";
import { nameOf, type StoredKey } from "./stored-names.js";

const RETRY_MS = 20;

type Manager = Pick<ServiceManager, "store" | "remove" | "socket">;

/** Something that the manager is still to be told. */
interface Word {
  readonly key: StoredKey;
  readonly name: string;
  /** To be stored; undefined if what is stored is to be removed. */
  readonly fd?: OwnedFd;
  /** Whether the descriptor is this store's own. */
  readonly isTwin?: boolean;
}

interface Stored {
  /** The caller's. */
  readonly fds: readonly OwnedFd[];
  /** How many of them the manager has; they come first. */
  told: number;
}

export interface FdStoreEvents {
  log(line: string): void;
  /** The manager has taken all of this, or it is not stored any more. Called from the event loop. */
  onSettled(key: StoredKey): void;
  /** The manager took a word after it had been busy, or has nothing left to take. */
  onProgress(): void;
  /** The manager cannot be told any more, and is told nothing until `begin` is called anew. */
  onFailure(): void;
}

export class FdStore {
  readonly #events: FdStoreEvents;
  readonly #stored = new Map<StoredKey, Stored>();
  /** Came from the manager, which has them still, and were not yet stored by the hub's core. */
  readonly #inherited = new Map<StoredKey, number>();
  /** Memory files of which a descriptor is stored, and for what. */
  readonly #inodes = new Map<string, Set<StoredKey>>();
  /** The same the other way round. */
  readonly #inodesOf = new Map<StoredKey, Set<string>>();
  /** In order. WHY a map: words are dropped one by one if what they are of ends before they are told. */
  readonly #words = new Map<string, Word>();
  #manager: Manager | undefined;
  #watch: FdWatch | undefined;
  #timer: NodeJS.Timeout | undefined;
  #count = 0;

  constructor(events: FdStoreEvents) {
    this.#events = events;
  }

  /** How many descriptors the manager has. */
  get count(): number {
    return this.#count;
  }

  /** Of how many descriptors the manager is still to be told that they are stored, or removed. */
  get pending(): number {
    return this.#words.size;
  }

  /** Whether the manager has all of it. */
  has(key: StoredKey): boolean {
    const stored = this.#stored.get(key);
    return stored !== undefined && stored.told === stored.fds.length;
  }

  /** From here on this manager is told, which has what was inherited and nothing else. */
  begin(manager: Manager): void {
    this.#manager = manager;
    this.#watchRoom();
    this.#tell();
  }

  /** The manager is gone: nobody is told until the next one is there, which is told everything. */
  manageless(): void {
    this.#stopWaiting();
    this.#manager = undefined;
    this.#inherited.clear();
    this.#count = 0;
    this.#dropWords();
    this.#inodes.clear();
    this.#inodesOf.clear();
    for (const [key, stored] of this.#stored) {
      stored.told = 0;
      this.#queue(key, stored);
    }
  }

  /** These descriptors came from the manager, which has them still. */
  inherit(key: StoredKey, fds: readonly OwnedFd[]): void {
    this.#inherited.set(key, fds.length);
    this.#count += fds.length;
    for (const fd of fds) this.#isKnown(key, fd);
  }

  /** Lets go of what was inherited and not stored since. */
  dropInherited(): void {
    for (const key of [...this.#inherited.keys()]) this.remove(key);
  }

  /** The descriptors stay the caller's, open until `remove`. */
  store(key: StoredKey, fds: readonly OwnedFd[]): void {
    const inherited = this.#inherited.get(key);
    if (inherited === fds.length) {
      this.#inherited.delete(key);
      this.#stored.set(key, { fds, told: fds.length });
      return;
    }
    this.remove(key);
    const stored = { fds, told: 0 };
    this.#stored.set(key, stored);
    this.#queue(key, stored);
    this.#tell();
  }

  /** Before the descriptors are closed. */
  remove(key: StoredKey): void {
    const stored = this.#stored.get(key);
    const told = this.#inherited.get(key) ?? stored?.told ?? 0;
    this.#inherited.delete(key);
    this.#stored.delete(key);
    for (let index = 0; index < Math.max(told, stored?.fds.length ?? 0); index += 1) {
      const name = nameOf(key, index);
      this.#dropWord(`+${name}`);
      if (index < told) this.#words.set(`-${name}`, { key, name });
    }
    for (const inode of this.#inodesOf.get(key) ?? []) {
      const keys = this.#inodes.get(inode);
      if (keys?.delete(key) && keys.size === 0) this.#inodes.delete(inode);
    }
    this.#inodesOf.delete(key);
    if (stored !== undefined && told < stored.fds.length) setImmediate(() => this.#events.onSettled(key));
    this.#tell();
  }

  /** What was not told yet is not told any more; the manager keeps what it has. */
  close(): void {
    this.#stopWaiting();
    this.#manager = undefined;
    this.#dropWords();
  }

  #queue(key: StoredKey, { fds }: Stored): void {
    try {
      for (const [index, fd] of fds.entries()) {
        // WHY: systemd keeps each open file once, under its first name, and would drop it for all with the first of them that ends.
        const twin = this.#isKnown(key, fd) ? (reopenWritable(fd) ?? reopenReadOnly(fd)) : undefined;
        const name = nameOf(key, index);
        this.#words.set(`+${name}`, { key, name, fd: twin ?? fd, isTwin: twin !== undefined });
      }
    } catch (error) {
      // WHY not thrown: the object is shared by now, and its holders bring its memory back in any case.
      this.#events.log(`${key} is not kept for the next hub: ${describeError(error)}`);
      this.remove(key);
    }
  }

  /** Whether a descriptor of the same memory file is stored for something else; notes that one is for this. */
  #isKnown(key: StoredKey, fd: OwnedFd): boolean {
    if (!key.startsWith("o")) return false;
    const { inode, sizeSealed } = inspectMemoryFile(fd);
    // WHY not of others: all memory of a GPU is one file by its inode, and each descriptor of it an open file of its own.
    if (!sizeSealed) return false;
    const keys = this.#inodes.get(inode) ?? new Set();
    const isKnown = keys.size > (keys.has(key) ? 1 : 0);
    this.#inodes.set(inode, keys.add(key));
    this.#inodesOf.set(key, (this.#inodesOf.get(key) ?? new Set()).add(inode));
    return isKnown;
  }

  /** @param hasRoom whether the socket said that it has */
  #tell(hasRoom = false): void {
    if (this.#manager === undefined) return;
    clearTimeout(this.#timer);
    let told = 0;
    try {
      for (const [id, word] of this.#words) {
        if (!this.#tellOne(this.#manager, word)) break;
        this.#words.delete(id);
        told += 1;
      }
    } catch (error) {
      // WHY all: a manager that is not there will not be there for the next either. The next one is told everything.
      this.#events.log(`what is shared is not kept for the next hub: ${describeError(error)}`);
      this.manageless();
      this.#events.onFailure();
      return;
    }
    if (told > 0 || this.#words.size === 0) this.#events.onProgress();
    this.#waitForRoom(hasRoom && told === 0);
  }

  /** False if the manager has to be told later. */
  #tellOne(manager: Manager, { key, name, fd, isTwin }: Word): boolean {
    if (fd === undefined) {
      if (!manager.remove(name)) return false;
      this.#count -= 1;
      return true;
    }
    // WHY dropped: the process of a client has ended, and what it held is still being given back.
    if (fd.closed) return true;
    if (!manager.store(name, [fd])) return false;
    if (isTwin) fd.close();
    this.#count += 1;
    const stored = this.#stored.get(key);
    if (stored === undefined) return true;
    stored.told += 1;
    if (stored.told === stored.fds.length) setImmediate(() => this.#events.onSettled(key));
    return true;
  }

  #watchRoom(): void {
    const socket = this.#manager?.socket;
    if (socket === undefined) return;
    this.#watch = new FdWatch(socket, () => this.#tell(true));
    this.#watch.setReadable(false);
  }

  /** @param inVain the socket has room: it is the user who has too many descriptors under way */
  #waitForRoom(inVain: boolean): void {
    const waits = this.#words.size > 0;
    const byWatch = waits && !inVain && this.#watch !== undefined;
    this.#watch?.setWritable(byWatch);
    if (waits && !byWatch) this.#timer = setTimeout(() => this.#tell(), RETRY_MS);
  }

  #stopWaiting(): void {
    clearTimeout(this.#timer);
    this.#watch?.close();
    this.#watch = undefined;
  }

  #dropWord(id: string): void {
    const word = this.#words.get(id);
    this.#words.delete(id);
    if (word?.isTwin) word.fd?.close();
  }

  #dropWords(): void {
    const twins = [...this.#words.values()].filter(({ isTwin }) => isTwin);
    this.#words.clear();
    releaseAll(twins.map((word) => () => word.fd?.close()));
  }
}
