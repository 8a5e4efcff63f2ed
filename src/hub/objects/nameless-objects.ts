/**
 * The objects that have no name: they lost it and still have holders, or they take it over when
 * they are published. In the order of their numbers, for each user those that it may see.
 */
import { chargedBytes } from "../../wire/descriptor.js";
import type { HubStatus } from "../../wire/messages.js";
import type { Guarded } from "../core/access.js";
import type { Peer } from "../core/ports.js";
import type { SharedObject } from "./shared-object.js";
import { VisibleNames } from "./visible-names.js";

/** Digits of the largest safe integer, so that texts sort as their numbers do. */
const DIGITS = 16;

export class NamelessObjects<Fd> {
  readonly #objects = new Map<string, SharedObject<Fd>>();
  readonly #places = new VisibleNames();
  #hostBytes = 0;
  #deviceBytes = 0;

  /** How many objects of all users there are, and their memory. */
  get use(): HubStatus["nameless"] {
    const hostBytes = this.#hostBytes;
    return { objects: this.#objects.size, hostBytes, deviceBytes: this.#deviceBytes };
  }

  add(object: SharedObject<Fd>): void {
    this.#objects.set(placeOf(object.id), object);
    this.#places.add(guarded(object));
    this.#count(object, 1);
  }

  delete(object: SharedObject<Fd>): void {
    if (!this.#objects.delete(placeOf(object.id))) return;
    this.#places.delete(guarded(object));
    this.#count(object, -1);
  }

  clear(): void {
    this.#objects.clear();
    this.#places.clear();
    this.#hostBytes = this.#deviceBytes = 0;
  }

  /** The objects that this user sees and whose places follow `place`. */
  *after(peer: Peer, place: string | undefined): IterableIterator<SharedObject<Fd>> {
    for (const found of this.#places.after(peer, place))
      yield this.#objects.get(found) as SharedObject<Fd>;
  }

  #count({ descriptor }: SharedObject<Fd>, sign: 1 | -1): void {
    const { hostBytes, deviceBytes } = chargedBytes(descriptor);
    this.#hostBytes += sign * hostBytes;
    this.#deviceBytes += sign * deviceBytes;
  }
}

/** Where an object comes in the list, as text. */
export function placeOf(object: number): string {
  return String(object).padStart(DIGITS, "0");
}

function guarded<Fd>({ id, sharing, owner }: SharedObject<Fd>): Guarded {
  return { name: placeOf(id), sharing, owner };
}
