/**
 * The taken names in order, one sorted list for each group of users who see the same names. So a
 * page of `list` costs only what is on it, however many objects other users have.
 */
import { ROOT } from "../../os/runtime-folder.js";
import type { Guarded } from "../core/access.js";
import type { Peer } from "../core/ports.js";

/** The list of names that are shared with everybody. */
const SHARED_WITH_ALL = "all";
/** The list of all names, which only root sees. */
const EVERY_NAME = "every";

export class VisibleNames {
  readonly #lists = new Map<string, SortedNames>();

  add(object: Guarded): void {
    for (const key of keysOf(object)) {
      const names = this.#lists.get(key) ?? new SortedNames();
      names.add(object.name);
      this.#lists.set(key, names);
    }
  }

  /** Replaces all names by those of these objects, in any order. */
  reset(objects: Iterable<Guarded>): void {
    const lists = new Map<string, string[]>();
    for (const object of objects) {
      for (const key of keysOf(object)) {
        const names = lists.get(key);
        if (names === undefined) lists.set(key, [object.name]);
        else names.push(object.name);
      }
    }
    this.#lists.clear();
    for (const [key, names] of lists) this.#lists.set(key, SortedNames.of(names));
  }

  delete(object: Guarded): void {
    for (const key of keysOf(object)) {
      const names = this.#lists.get(key);
      names?.delete(object.name);
      if (names?.size === 0) this.#lists.delete(key);
    }
  }

  clear(): void {
    this.#lists.clear();
  }

  /**
   * The names that this user sees and that follow `after`, in order. They must not change
   * meanwhile.
   */
  *after(peer: Peer, after: string | undefined): IterableIterator<string> {
    const lists = this.#listsOf(peer).map((names) => names.after(after));
    const heads = lists.map((names) => names.next().value as string | undefined);
    for (;;) {
      let least: string | undefined;
      for (const name of heads)
        if (name !== undefined && (least === undefined || name < least)) least = name;
      if (least === undefined) return;
      yield least;
      // A shared name is also in its owner's list, so every list moves past it.
      for (const [index, name] of heads.entries())
        if (name === least) heads[index] = lists[index]?.next().value;
    }
  }

  #listsOf({ uid, gid, groups }: Peer): SortedNames[] {
    const keys =
      uid === ROOT
        ? [EVERY_NAME]
        : [ofUser(uid), SHARED_WITH_ALL, ...new Set([gid, ...groups].map(ofGroup))];
    return keys.flatMap((key) => this.#lists.get(key) ?? []);
  }
}

/** Names in the order of their code units. */
export class SortedNames {
  #names: string[] = [];

  /** Sorts these names at once: adding them one by one would take a large hub too long to start. */
  static of(names: Iterable<string>): SortedNames {
    const sorted = new SortedNames();
    sorted.#names = [...names].sort();
    return sorted;
  }

  get size(): number {
    return this.#names.length;
  }

  add(name: string): void {
    this.#names.splice(this.#indexOf(name), 0, name);
  }

  delete(name: string): void {
    const index = this.#indexOf(name);
    if (this.#names[index] === name) this.#names.splice(index, 1);
  }

  clear(): void {
    this.#names = [];
  }

  /** The names that follow `after`, or all names. They must not change meanwhile. */
  *after(after: string | undefined): IterableIterator<string> {
    let index = after === undefined ? 0 : this.#indexOf(after);
    if (this.#names[index] === after) index += 1;
    for (let name = this.#names[index]; name !== undefined; name = this.#names[index]) {
      yield name;
      index += 1;
    }
  }

  /** The index of the name, or the index to insert it at. */
  #indexOf(name: string): number {
    let low = 0;
    let high = this.#names.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if ((this.#names[middle] as string) < name) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function keysOf({ sharing, owner }: Guarded): string[] {
  const keys = [EVERY_NAME, ofUser(owner.uid)];
  if (sharing.with === "all") keys.push(SHARED_WITH_ALL);
  if (sharing.with === "group") keys.push(ofGroup(owner.gid));
  return keys;
}

function ofUser(uid: number): string {
  return `user ${uid}`;
}

function ofGroup(gid: number): string {
  return `group ${gid}`;
}
