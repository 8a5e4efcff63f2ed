/** The objects and leases of a hub by number, name and visibility, with the counts for `status`. */
import type { Peer } from "../core/ports.js";
import { NamelessObjects } from "./nameless-objects.js";
import { ObjectChanges } from "./object-changes.js";
import { ServiceUsers } from "./service-users.js";
import type { Lease, SharedObject } from "./shared-object.js";
import { VisibleNames } from "./visible-names.js";

export class ObjectIndex<Fd> {
  readonly changes = new ObjectChanges<Fd>();
  readonly nameless = new NamelessObjects<Fd>();
  readonly services = new ServiceUsers();
  readonly #objects = new Map<number, SharedObject<Fd>>();
  readonly #byName = new Map<string, SharedObject<Fd>>();
  readonly #leases = new Map<number, Lease<Fd>>();
  readonly #visibleNames = new VisibleNames();
  #pinnedCount = 0;
  #withoutMemoryCount = 0;

  get size(): number {
    return this.#objects.size;
  }

  get leaseCount(): number {
    return this.#leases.size;
  }

  /** How many pinned objects still have their name. */
  get pinnedCount(): number {
    return this.#pinnedCount;
  }

  get withoutMemoryCount(): number {
    return this.#withoutMemoryCount;
  }

  objects(): Iterable<SharedObject<Fd>> {
    return this.#objects.values();
  }

  leases(): Iterable<Lease<Fd>> {
    return this.#leases.values();
  }

  find(name: string): SharedObject<Fd> | undefined {
    return this.#byName.get(name);
  }

  get(id: number): SharedObject<Fd> | undefined {
    return this.#objects.get(id);
  }

  /** The objects that this user sees and whose names follow `after`, in order of their names. */
  *visibleAfter(peer: Peer, after: string | undefined): IterableIterator<SharedObject<Fd>> {
    for (const name of this.#visibleNames.after(peer, after))
      yield this.#byName.get(name) as SharedObject<Fd>;
  }

  add(object: SharedObject<Fd>): void {
    this.addUnsorted(object);
    if (object.named) this.#visibleNames.add(object);
    this.changes.changed(object);
  }

  /** Adds one of many objects. Call `sortNames` after the last one. */
  addUnsorted(object: SharedObject<Fd>): void {
    this.#objects.set(object.id, object);
    if (object.memory === undefined) this.#withoutMemoryCount += 1;
    if (object.named && object.lifetime === "pinned") this.#pinnedCount += 1;
    if (object.named) {
      this.#byName.set(object.name, object);
      this.services.count(object, 1);
    } else this.nameless.add(object);
  }

  sortNames(): void {
    this.#visibleNames.reset(this.#byName.values());
  }

  /** Gives the object its name, which is free. */
  name(object: SharedObject<Fd>): void {
    this.nameless.delete(object);
    object.named = true;
    if (object.lifetime === "pinned") this.#pinnedCount += 1;
    this.#byName.set(object.name, object);
    this.services.count(object, 1);
    this.#visibleNames.add(object);
  }

  /** The object has got its memory back. */
  memoryFound(object: SharedObject<Fd>): void {
    this.#withoutMemoryCount -= 1;
    this.changes.changed(object);
  }

  unname(object: SharedObject<Fd>): void {
    object.named = false;
    if (object.lifetime === "pinned") this.#pinnedCount -= 1;
    this.#byName.delete(object.name);
    this.services.count(object, -1);
    this.#visibleNames.delete(object);
    if (this.#objects.has(object.id)) this.nameless.add(object);
    this.changes.ended(object);
  }

  /** Returns false if the object was deleted before. */
  delete(object: SharedObject<Fd>): boolean {
    if (!this.#objects.delete(object.id)) return false;
    if (!object.named) this.nameless.delete(object);
    if (object.memory === undefined) this.#withoutMemoryCount -= 1;
    return true;
  }

  addLease(lease: Lease<Fd>): void {
    lease.object.leases.add(lease);
    if (lease.role === "reader") lease.object.hadReader = true;
    lease.session.leases.set(lease.id, lease);
    this.#leases.set(lease.id, lease);
    this.changes.changed(lease.object);
  }

  /** Returns false if the lease was deleted before. */
  deleteLease(lease: Lease<Fd>): boolean {
    if (!this.#leases.delete(lease.id)) return false;
    lease.object.leases.delete(lease);
    lease.session.leases.delete(lease.id);
    lease.session.unrestored?.delete(lease.id);
    this.changes.changed(lease.object);
    return true;
  }

  clear(): void {
    this.#objects.clear();
    this.#byName.clear();
    this.#leases.clear();
    this.#visibleNames.clear();
    this.nameless.clear();
    this.services.clear();
    this.#pinnedCount = this.#withoutMemoryCount = 0;
  }
}
