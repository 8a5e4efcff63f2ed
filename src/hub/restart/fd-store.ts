/**
 * The descriptors that the service manager or keeper keeps for the next hub. A busy manager is told
 * later, in the same order. A new manager is told everything again.
 */
import type { Log } from "../../base/log-events.js";
import { releaseAll } from "../../base/scope.js";
import { FdWatch } from "../../os/fd-watch.js";
import { inspectMemoryFile, reopenReadOnly, reopenWritable } from "../../os/memory-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import type { ServiceManager } from "../../os/service-manager.js";
import { codeOf, describeError } from "../hub-log.js";
import { nameOf, type StoredKey } from "./stored-names.js";

const RETRY_MS = 20;

type Manager = Pick<ServiceManager, "store" | "remove" | "socket">;

/** One thing that the manager must still be told. */
interface Word {
  readonly key: StoredKey;
  readonly name: string;
  /** The descriptor to store. Undefined to remove the stored one. */
  readonly fd?: OwnedFd;
  /** Whether this store owns the descriptor. */
  readonly isTwin?: boolean;
}

interface Stored {
  readonly fds: readonly OwnedFd[];
  /** How many of them the manager has, from the first on. */
  told: number;
}

export interface FdStoreEvents {
  readonly log: Log;
  /**
   * The manager has everything under this key, or it is no longer stored. Called from the event
   * loop.
   */
  onSettled(key: StoredKey): void;
  /** The manager took something after it had been busy, or has nothing left to take. */
  onProgress(): void;
  /** The manager fails. It is told nothing until `begin` is called again. */
  onFailure(): void;
}

export class FdStore {
  readonly #events: FdStoreEvents;
  readonly #stored = new Map<StoredKey, Stored>();
  /**
   * The keys that the manager still has from an earlier hub and that the core has not stored yet,
   * with their counts.
   */
  readonly #inherited = new Map<StoredKey, number>();
  /** The keys under which each memory file is stored, by inode. */
  readonly #inodes = new Map<string, Set<StoredKey>>();
  /** The inodes under each key. */
  readonly #inodesOf = new Map<StoredKey, Set<string>>();
  /** In order. A map, because a word is dropped if its thing ends before it is told. */
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

  /** How many descriptors the manager must still store or remove. */
  get pending(): number {
    return this.#words.size;
  }

  /** Whether the manager has everything under this key. */
  has(key: StoredKey): boolean {
    const stored = this.#stored.get(key);
    return stored !== undefined && stored.told === stored.fds.length;
  }

  /** Starts telling this manager, which has what was inherited and nothing else. */
  begin(manager: Manager): void {
    this.#manager = manager;
    this.#watchRoom();
    this.#tell();
  }

  /** The manager is gone. The next one will be told everything. */
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

  /** These descriptors came from the manager, which still has them. */
  inherit(key: StoredKey, fds: readonly OwnedFd[]): void {
    this.#inherited.set(key, fds.length);
    this.#count += fds.length;
    for (const fd of fds) this.#isKnown(key, fd);
  }

  /** Removes what was inherited and not stored since. */
  dropInherited(): void {
    for (const key of [...this.#inherited.keys()]) this.remove(key);
  }

  /** The descriptors stay the caller's, and open until `remove`. */
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

  /** Call it before you close the descriptors. */
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
    if (stored !== undefined && told < stored.fds.length)
      setImmediate(() => this.#events.onSettled(key));
    this.#tell();
  }

  /** Tells nothing more. The manager keeps what it has. */
  close(): void {
    this.#stopWaiting();
    this.#manager = undefined;
    this.#dropWords();
  }

  #queue(key: StoredKey, { fds }: Stored): void {
    try {
      for (const [index, fd] of fds.entries()) {
        // systemd keeps each open file once, under its first name. It would drop the file for all
        // of its names when the first one ends.
        const twin = this.#isKnown(key, fd)
          ? (reopenWritable(fd) ?? reopenReadOnly(fd))
          : undefined;
        const name = nameOf(key, index);
        this.#words.set(`+${name}`, { key, name, fd: twin ?? fd, isTwin: twin !== undefined });
      }
    } catch (error) {
      // Not thrown: the object is shared already, and its holders can bring its memory back.
      this.#notKept(key, error);
      this.remove(key);
    }
  }

  #notKept(what: string, error: unknown): void {
    const message = `${what} is not kept for the next hub: ${describeError(error)}`;
    this.#events.log("object-not-kept", message, codeOf(error));
  }

  /** Whether the same memory file is stored under another key. Notes it under this key. */
  #isKnown(key: StoredKey, fd: OwnedFd): boolean {
    if (!key.startsWith("o")) return false;
    const { inode, sizeSealed } = inspectMemoryFile(fd);
    // Memory files only: all GPU memory has one inode, and each of its descriptors is a separate
    // open file.
    if (!sizeSealed) return false;
    const keys = this.#inodes.get(inode) ?? new Set();
    const isKnown = keys.size > (keys.has(key) ? 1 : 0);
    this.#inodes.set(inode, keys.add(key));
    this.#inodesOf.set(key, (this.#inodesOf.get(key) ?? new Set()).add(inode));
    return isKnown;
  }

  /** @param hasRoom whether the socket reported room */
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
      // WHY everything: this manager will fail for the next word as well. The next manager is told
      // everything.
      this.#notKept("what is shared", error);
      this.manageless();
      this.#events.onFailure();
      return;
    }
    if (told > 0 || this.#words.size === 0) this.#events.onProgress();
    this.#waitForRoom(hasRoom && told === 0);
  }

  /** Returns false if the manager is busy. */
  #tellOne(manager: Manager, { key, name, fd, isTwin }: Word): boolean {
    if (fd === undefined) {
      if (!manager.remove(name)) return false;
      this.#count -= 1;
      return true;
    }
    // Dropped: a client's process has ended, and its leases are still being released.
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

  /** @param inVain whether the socket has room, but the user has too many descriptors in flight */
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
