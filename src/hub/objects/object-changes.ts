/**
 * The latest changes of named objects, so a watcher asks only for what has changed. A change has a
 * position, counted from 0. Only the latest change of an object is told.
 */
import { limits } from "../../base/limits.js";
import type { Guarded } from "../core/access.js";
import type { SharedObject } from "./shared-object.js";

/** The end of an object's name, and the facts that decide who may learn of it. */
export interface EndedObject extends Guarded {
  readonly id: number;
}

export class ObjectChanges<Fd> {
  /** Called for each change, in the middle of it. */
  onChange: (object: Guarded) => void = () => {};
  readonly #keptMax: number;
  /** A ring. A number is the id of an object that changed. */
  readonly #entries: (number | EndedObject)[] = [];
  #end = 0;

  constructor(keptMax: number = limits.hubChangesKeptMax) {
    this.#keptMax = keptMax;
  }

  /** The position of the next change. */
  get end(): number {
    return this.#end;
  }

  /** Whether all changes from this position on are still known. */
  reachesBackTo(position: number): boolean {
    return position <= this.#end && position >= this.#end - this.#keptMax;
  }

  changed(object: SharedObject<Fd>): void {
    if (!object.named) return;
    object.changedAt = this.#end;
    this.#add(object.id);
    this.onChange(object);
  }

  ended({ id, name, sharing, owner }: SharedObject<Fd>): void {
    const object = { id, name, sharing, owner };
    this.#add(object);
    this.onChange(object);
  }

  /** The entry at a position that is still known. */
  at(position: number): number | EndedObject {
    return this.#entries[position % this.#keptMax] as number | EndedObject;
  }

  #add(entry: number | EndedObject): void {
    this.#entries[this.#end % this.#keptMax] = entry;
    this.#end += 1;
  }
}
