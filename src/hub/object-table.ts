/**
 * The objects that a hub keeps, under their names, with the leases on them. Pure bookkeeping: an object exists as long as
 * its lifetime says, and its descriptors are closed exactly when it ends.
 *
 *   created --publish--> published --remove--> unnamed
 *      |                     |                    |
 *      +-- owner's lease     +-- held: last       +-- last lease ends
 *          ends                  lease ends
 *
 * A timeline has its name for as long as its owner has it, and ends for everybody when the owner's lease does.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { releaseAll } from "../base/scope.js";
import type { Descriptor } from "../wire/descriptor.js";
import type { Lifetime } from "../wire/messages.js";
import type { HubPorts, SessionId } from "./ports.js";

export type LeaseKind = "owner" | "read" | "read-write";

export interface Lease<Fd> {
  readonly id: number;
  readonly kind: LeaseKind;
  readonly session: SessionId;
  readonly object: SharedObject<Fd>;
}

export interface SharedObject<Fd> {
  readonly id: number;
  readonly name: string;
  readonly lifetime: Lifetime;
  readonly descriptor: Descriptor;
  readonly memory: Fd;
  readonly index: Fd | undefined;
  readonly createdAtMs: number;
  readonly ownerPid: number;
  readonly leases: Map<number, Lease<Fd>>;
  published: boolean;
  /** False once it was removed: it then lives for its leases alone. */
  named: boolean;
}

export type ObjectPorts<Fd> = Pick<HubPorts<Fd>, "closeFd" | "endTimeline">;

export type NewObject<Fd> = Omit<SharedObject<Fd>, "id" | "leases" | "published" | "named">;

export class ObjectTable<Fd> {
  readonly #ports: ObjectPorts<Fd>;
  readonly #objects = new Map<number, SharedObject<Fd>>();
  readonly #byName = new Map<string, SharedObject<Fd>>();
  readonly #leases = new Map<number, Lease<Fd>>();
  #sortedNames: string[] | undefined;
  /** WHY one counter for both: ids are never reused by one hub, so a stale id can only meet nothing. */
  #lastId = 0;

  constructor(ports: ObjectPorts<Fd>) {
    this.#ports = ports;
  }

  get size(): number {
    return this.#objects.size;
  }

  get leaseCount(): number {
    return this.#leases.size;
  }

  objects(): Iterable<SharedObject<Fd>> {
    return this.#objects.values();
  }

  /** Adds an object with its owner's lease; from here on its descriptors are the table's. Throws before that. */
  create(fields: NewObject<Fd>, owner: SessionId): { object: SharedObject<Fd>; lease: Lease<Fd> } {
    if (this.#byName.has(fields.name)) {
      throw new CudaIpcError("NAME_TAKEN", `Cannot create "${fields.name}": an object of this name is shared`);
    }
    if (this.#objects.size >= limits.hubObjectsMax) {
      throw new CudaIpcError(
        "LIMIT_EXCEEDED",
        `Cannot create "${fields.name}": the hub keeps ${this.#objects.size} objects, its limit (hubObjectsMax)`,
      );
    }
    const object = { ...fields, id: this.#nextId(), leases: new Map(), published: false, named: true };
    this.#objects.set(object.id, object);
    this.#byName.set(object.name, object);
    this.#sortedNames = undefined;
    return { object, lease: this.lease(object, owner, "owner") };
  }

  find(name: string): SharedObject<Fd> | undefined {
    return this.#byName.get(name);
  }

  get(id: number): SharedObject<Fd> | undefined {
    return this.#objects.get(id);
  }

  lease(object: SharedObject<Fd>, session: SessionId, kind: LeaseKind): Lease<Fd> {
    const lease = { id: this.#nextId(), kind, session, object };
    object.leases.set(lease.id, lease);
    this.#leases.set(lease.id, lease);
    return lease;
  }

  findLease(id: number): Lease<Fd> | undefined {
    return this.#leases.get(id);
  }

  release(lease: Lease<Fd>): void {
    if (!this.#leases.delete(lease.id)) return;
    const { object } = lease;
    object.leases.delete(lease.id);
    if (lease.kind === "owner") this.#ownerLeft(object);
    else this.#endIfUnused(object);
  }

  /** Takes the name away at once; the memory stays until the last lease ends. */
  remove(object: SharedObject<Fd>): void {
    if (object.named) {
      object.named = false;
      this.#byName.delete(object.name);
      this.#sortedNames = undefined;
    }
    this.#endIfUnused(object);
  }

  /** The objects whose names follow `after`, in order; all where it is undefined. The table does not change meanwhile. */
  *namedAfter(after: string | undefined): IterableIterator<SharedObject<Fd>> {
    this.#sortedNames ??= [...this.#byName.keys()].sort();
    const names = this.#sortedNames;
    for (let i = after === undefined ? 0 : firstAfter(names, after); i < names.length; i += 1) {
      const object = this.#byName.get(names[i] ?? "");
      if (object !== undefined) yield object;
    }
  }

  /** Ends every object, whatever its leases. */
  clear(): void {
    const objects = [...this.#objects.values()];
    this.#objects.clear();
    this.#byName.clear();
    this.#leases.clear();
    this.#sortedNames = undefined;
    releaseAll(objects.map((object) => () => this.#closeDescriptors(object)));
  }

  #ownerLeft(object: SharedObject<Fd>): void {
    const { content } = object.descriptor;
    const isTimeline = content.kind === "timeline";
    releaseAll([
      () => {
        // WHY before all else: streams of GPUs wait for it, and their processes with them.
        if (isTimeline) this.#ports.endTimeline(object.memory, content.byteOffset);
      },
      () => (object.published && !isTimeline ? this.#endIfUnused(object) : this.remove(object)),
    ]);
  }

  #endIfUnused(object: SharedObject<Fd>): void {
    const kept = object.leases.size > 0 || (object.named && object.lifetime === "pinned");
    if (kept || !this.#objects.delete(object.id)) return;
    if (object.named) {
      object.named = false;
      this.#byName.delete(object.name);
      this.#sortedNames = undefined;
    }
    this.#closeDescriptors(object);
  }

  #closeDescriptors(object: SharedObject<Fd>): void {
    const fds = object.index === undefined ? [object.memory] : [object.memory, object.index];
    releaseAll(fds.map((fd) => () => this.#ports.closeFd(fd)));
  }

  #nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }
}

function firstAfter(sorted: readonly string[], name: string): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if ((sorted[middle] ?? "") <= name) low = middle + 1;
    else high = middle;
  }
  return low;
}
