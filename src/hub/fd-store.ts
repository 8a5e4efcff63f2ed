/**
 * The descriptors that the service manager keeps for the next hub, in case this one dies: each object's, under names that tell which
 * object they are of and in which order. A manager that is busy is told again a moment later, in the same order.
 */
import { releaseAll } from "../base/scope.js";
import { inspectMemoryFile, reopenReadOnly, reopenWritable } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import type { ServiceManager } from "../os/service-manager.js";
import { describeError } from "./client-connections.js";

const NAME = /^o([1-9]\d{0,15})\.(\d{1,3})$/;
const RETRY_MS = 20;

export interface StoredName {
  readonly object: number;
  readonly index: number;
}

function nameOf({ object, index }: StoredName): string {
  return `o${object}.${index}`;
}

/** Undefined for a name of something else. */
export function parseStoredName(name: string): StoredName | undefined {
  const [, object, index] = NAME.exec(name) ?? [];
  return object === undefined ? undefined : { object: Number(object), index: Number(index) };
}

/** Something that the manager is still to be told. */
interface Word {
  readonly object: number;
  readonly name: string;
  /** To be stored; undefined where what is stored is to be removed. */
  readonly fd?: OwnedFd;
  /** Whether the descriptor is this store's own. */
  readonly isTwin?: boolean;
}

export class FdStore {
  readonly #manager: Pick<ServiceManager, "store" | "remove">;
  readonly #log: (line: string) => void;
  /** Names that the manager has, by object. */
  readonly #names = new Map<number, string[]>();
  /** Objects of which the memory came from the store, and is there still. */
  readonly #inherited = new Set<number>();
  /** Files of which a descriptor is stored, by object. */
  readonly #inodes = new Map<string, Set<number>>();
  /** The same the other way round. */
  readonly #inodesOf = new Map<number, Set<string>>();
  #words: Word[] = [];
  #timer: NodeJS.Timeout | undefined;

  constructor(manager: Pick<ServiceManager, "store" | "remove">, log: (line: string) => void) {
    this.#manager = manager;
    this.#log = log;
  }

  /** This object's descriptors came from the manager, which has them still. */
  inherit(object: number, fds: readonly OwnedFd[]): void {
    this.#inherited.add(object);
    this.#names.set(
      object,
      fds.map((_, index) => nameOf({ object, index })),
    );
    for (const fd of fds) this.#isKnown(object, fd);
  }

  /** The descriptors stay the caller's, until `remove`. */
  store(object: number, fds: readonly OwnedFd[]): void {
    if (this.#inherited.delete(object)) return;
    this.remove(object);
    try {
      for (const [index, fd] of fds.entries()) {
        // WHY: a manager keeps each open file once, under its first name, and would drop it for all with the first of them that ends.
        const twin = this.#isKnown(object, fd) ? (reopenWritable(fd) ?? reopenReadOnly(fd)) : undefined;
        this.#words.push({ object, name: nameOf({ object, index }), fd: twin ?? fd, isTwin: twin !== undefined });
      }
    } catch (error) {
      // WHY not thrown: the object is shared by now, and its holders bring its memory back in any case.
      this.#log(`the service manager does not keep object ${object}: ${describeError(error)}`);
      this.remove(object);
    }
    this.#tell();
  }

  /** Before the object's descriptors are closed. */
  remove(object: number): void {
    this.#inherited.delete(object);
    this.#words = this.#words.filter((word) => {
      if (word.object !== object || word.fd === undefined) return true;
      if (word.isTwin) word.fd.close();
      return false;
    });
    for (const name of this.#names.get(object) ?? []) this.#words.push({ object, name });
    this.#names.delete(object);
    for (const inode of this.#inodesOf.get(object) ?? []) {
      const objects = this.#inodes.get(inode);
      if (objects?.delete(object) && objects.size === 0) this.#inodes.delete(inode);
    }
    this.#inodesOf.delete(object);
    this.#tell();
  }

  /** What was not told yet is not told any more; the manager keeps what it has. */
  close(): void {
    clearTimeout(this.#timer);
    const twins = this.#words.filter(({ isTwin }) => isTwin);
    this.#words = [];
    releaseAll(
      twins.map(
        ({ fd }) =>
          () =>
            fd?.close(),
      ),
    );
  }

  /** Whether a descriptor of the same memory file is stored for another object; notes that one is for this. */
  #isKnown(object: number, fd: OwnedFd): boolean {
    const { inode, sizeSealed } = inspectMemoryFile(fd);
    // WHY not of others: all memory of a GPU is one file by its inode, and each descriptor of it an open file of its own.
    if (!sizeSealed) return false;
    const objects = this.#inodes.get(inode) ?? new Set();
    const isKnown = objects.size > (objects.has(object) ? 1 : 0);
    this.#inodes.set(inode, objects.add(object));
    this.#inodesOf.set(object, (this.#inodesOf.get(object) ?? new Set()).add(inode));
    return isKnown;
  }

  #tell(): void {
    clearTimeout(this.#timer);
    let told = 0;
    try {
      for (const word of this.#words) {
        if (!this.#tellOne(word)) break;
        told += 1;
      }
    } catch (error) {
      // WHY all: a manager that is not there will not be there for the next either. Holders bring memory back in any case.
      this.#log(`the service manager keeps no more memory: ${describeError(error)}`);
      this.close();
      return;
    }
    this.#words.splice(0, told);
    if (this.#words.length > 0) this.#timer = setTimeout(() => this.#tell(), RETRY_MS);
  }

  /** False where the manager has to be told later. */
  #tellOne({ object, name, fd, isTwin }: Word): boolean {
    if (fd === undefined) return this.#manager.remove(name);
    if (!this.#manager.store(name, [fd])) return false;
    if (isTwin) fd.close();
    this.#names.set(object, [...(this.#names.get(object) ?? []), name]);
    return true;
  }
}
