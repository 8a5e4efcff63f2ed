/** The leases on one object, with those that are asked for again and again at hand: an object may have a hundred thousand. */
import type { Lease } from "./shared-object.js";

export class ObjectLeases<Fd> {
  readonly #all = new Map<number, Lease<Fd>>();
  /** WHY not at once: only channels have places, and a hub may have a hundred thousand objects. */
  #takenPlaces: Set<number> | undefined;
  /** Its creator's. */
  owner: Lease<Fd> | undefined;
  /** Of a channel. */
  writer: Lease<Fd> | undefined;

  get size(): number {
    return this.#all.size;
  }

  /** The one that has been there longest. */
  get first(): Lease<Fd> | undefined {
    for (const lease of this.#all.values()) return lease;
    return undefined;
  }

  /** In the order in which they came. */
  values(): IterableIterator<Lease<Fd>> {
    return this.#all.values();
  }

  isTaken(place: number): boolean {
    return this.#takenPlaces?.has(place) ?? false;
  }

  add(lease: Lease<Fd>): void {
    this.#all.set(lease.id, lease);
    if (lease.kind === "owner") this.owner = lease;
    if (lease.role === "writer") this.writer = lease;
    if (lease.place === undefined) return;
    this.#takenPlaces ??= new Set();
    this.#takenPlaces.add(lease.place);
  }

  delete(lease: Lease<Fd>): void {
    this.#all.delete(lease.id);
    if (this.owner === lease) this.owner = undefined;
    if (this.writer === lease) this.writer = undefined;
    if (lease.place !== undefined) this.#takenPlaces?.delete(lease.place);
  }
}
