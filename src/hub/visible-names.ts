/**
 * The names that are taken, in order, one list for each group of users that may see the same: a page of `list` costs no more than what is
 * on it, however many objects of others there are.
 */
import { ROOT } from "../os/runtime-folder.js";
import type { Guarded } from "./access.js";
import type { Peer } from "./ports.js";
import { SortedNames } from "./sorted-names.js";

const ALL = "all";
const EVERY = "every";

export class VisibleNames {
  readonly #lists = new Map<string, SortedNames>();

  add(object: Guarded): void {
    for (const key of keysOf(object)) {
      const names = this.#lists.get(key) ?? new SortedNames();
      names.add(object.name);
      this.#lists.set(key, names);
    }
  }

  /** Begins with these, in any order. */
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

  /** Those that this user may see and that follow `after`, in order. They do not change meanwhile. */
  *after(peer: Peer, after: string | undefined): IterableIterator<string> {
    const lists = this.#listsOf(peer).map((names) => names.after(after));
    const heads = lists.map((names) => names.next().value as string | undefined);
    for (;;) {
      let least: string | undefined;
      for (const name of heads) if (name !== undefined && (least === undefined || name < least)) least = name;
      if (least === undefined) return;
      yield least;
      // WHY in each: what is shared with others is in the list of its owner, too.
      for (const [index, name] of heads.entries()) if (name === least) heads[index] = lists[index]?.next().value;
    }
  }

  #listsOf({ uid, gid, groups }: Peer): SortedNames[] {
    const keys = uid === ROOT ? [EVERY] : [ofUser(uid), ALL, ...new Set([gid, ...groups].map(ofGroup))];
    return keys.flatMap((key) => this.#lists.get(key) ?? []);
  }
}

function keysOf({ sharing, owner }: Guarded): string[] {
  const keys = [EVERY, ofUser(owner.uid)];
  if (sharing.with === "all") keys.push(ALL);
  if (sharing.with === "group") keys.push(ofGroup(owner.gid));
  return keys;
}

function ofUser(uid: number): string {
  return `user ${uid}`;
}

function ofGroup(gid: number): string {
  return `group ${gid}`;
}
