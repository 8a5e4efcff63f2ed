/**
 * The objects that a hub keeps, under their names, with the leases on them. Pure bookkeeping: an object exists as long as
 * its lifetime says, and its descriptors are closed exactly when it ends.
 *
 *   created --publish--> published --remove--> unnamed
 *      |                     |                    |
 *      +-- owner's lease     +-- held: last       +-- last lease ends
 *          ends                  lease ends
 *
 * A timeline has its name for as long as its owner has it, and ends for everybody when the owner's lease does. After a crash of the hub
 * an object has no memory until somebody who holds it brings it back.
 */
import { CudaIpcError } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import { leaseRecord, objectOf, objectRecord, type RestoredState, sessionRecord } from "./as-records.js";
import type { HubRecord, LeaseRecord, ObjectRecord } from "./hub-records.js";
import { LostObjects } from "./lost-objects.js";
import { ObjectLeases } from "./object-leases.js";
import type { HubPorts, Peer } from "./ports.js";
import type { Account } from "./quota.js";
import type { Session } from "./sessions.js";
import type { Grant, Lease, NewObject, ObjectMemory, SharedObject } from "./shared-object.js";
import {
  chargeHolder,
  costOf,
  isAwaited,
  isChannel,
  isHeld,
  isLost,
  staysWithoutOwner,
  waitsForWriter,
} from "./shared-object.js";
import { VisibleNames } from "./visible-names.js";
import { WordsInMemory, type WordsPorts } from "./words-in-memory.js";

export type ObjectPorts<Fd> = WordsPorts<Fd> &
  Pick<HubPorts<Fd>, "record" | "memoryArrived" | "memoryGone" | "holderArrived" | "holderGone" | "objectLost" | "now">;

export class ObjectTable<Fd> {
  readonly lost: LostObjects;
  readonly #ports: ObjectPorts<Fd>;
  readonly #words: WordsInMemory<Fd>;
  readonly #nextId: () => number;
  readonly #objects = new Map<number, SharedObject<Fd>>();
  readonly #byName = new Map<string, SharedObject<Fd>>();
  readonly #leases = new Map<number, Lease<Fd>>();
  readonly #visibleNames = new VisibleNames();
  #pinnedCount = 0;
  #withoutMemoryCount = 0;

  /** @param nextId numbers of which none is given twice */
  constructor(ports: ObjectPorts<Fd>, nextId: () => number) {
    this.#ports = ports;
    this.lost = new LostObjects(ports);
    this.#words = new WordsInMemory(ports);
    this.#nextId = nextId;
  }

  get size(): number {
    return this.#objects.size;
  }

  get leaseCount(): number {
    return this.#leases.size;
  }

  /** Pinned objects that have their name. */
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

  /** Adds an object with its owner's lease; from here on its descriptors are the table's. Throws before that. */
  create(fields: NewObject<Fd>, session: Session<Fd>): Lease<Fd> {
    const { name, descriptor } = fields;
    if (this.#byName.has(name)) {
      throw new CudaIpcError("NAME_TAKEN", `Cannot create "${name}": an object of this name is shared`);
    }
    const { pid, uid, gid } = session.peer;
    const account = session.account.parent as Account;
    const object: SharedObject<Fd> = {
      ...fields,
      id: this.#nextId(),
      owner: { pid, uid, gid },
      account,
      leases: new ObjectLeases(),
      published: false,
      named: true,
    };
    const role = isChannel(object) ? "writer" : undefined;
    const lease: Lease<Fd> = { id: this.#nextId(), kind: "owner", role, place: undefined, session, object };
    const cost = { ...costOf(descriptor), leases: 1 };
    session.account.charge(`create "${name}"`, cost);
    try {
      this.#record(session, [objectRecord(object), leaseRecord(lease)]);
    } catch (error) {
      session.account.refund(cost);
      throw error;
    }
    this.lost.forget(name);
    this.#add(object);
    this.#addLease(lease);
    this.#ports.memoryArrived(object.id, fields.memory.fds);
    return lease;
  }

  publish(object: SharedObject<Fd>): void {
    if (object.published) return;
    this.#ports.record([{ t: "published", object: object.id }]);
    object.published = true;
  }

  /** @throws LIMIT_EXCEEDED */
  lease(object: SharedObject<Fd>, session: Session<Fd>, grant: Grant): Lease<Fd> {
    session.account.charge(`open "${object.name}"`, { leases: 1 });
    const lease: Lease<Fd> = { id: this.#nextId(), ...grant, session, object };
    try {
      this.#record(session, [leaseRecord(lease)]);
    } catch (error) {
      session.account.refund({ leases: 1 });
      throw error;
    }
    this.#addLease(lease);
    try {
      this.#words.begin(lease);
    } catch (error) {
      this.release(lease);
      throw error;
    }
    return lease;
  }

  release(lease: Lease<Fd>): void {
    if (!this.#leases.delete(lease.id)) return;
    const { object, session } = lease;
    object.leases.delete(lease);
    session.leases.delete(lease.id);
    session.unrestored?.delete(lease.id);
    session.account.refund({ leases: 1 });
    if (lease.kind === "owner") session.account.refundHere(costOf(object.descriptor));
    this.#ports.record([{ t: "released", lease: lease.id }]);
    chargeHolder(object);
    releaseAll([
      () => this.#words.holderLeft(lease),
      () => {
        if (lease.kind === "owner" || lease.role === "writer") this.#ownerLeft(object);
        else this.#endIfUnused(object);
      },
    ]);
  }

  /** Takes the name away at once; the memory stays until the last lease ends. */
  remove(object: SharedObject<Fd>): void {
    if (object.named) {
      this.#unname(object);
      this.#ports.record([{ t: "unnamed", object: object.id }]);
      chargeHolder(object);
    }
    releaseAll([
      // WHY: nobody can find it any more to go on with it.
      () => (isChannel(object) && object.leases.writer === undefined ? this.#words.ownerLeft(object) : undefined),
      () => this.#endIfUnused(object),
    ]);
  }

  /** Memory that was brought back; the table's from here on. What was there is closed. */
  supply(object: SharedObject<Fd>, memory: ObjectMemory<Fd>): void {
    const earlier = object.memory;
    if (earlier === undefined) this.#withoutMemoryCount -= 1;
    object.memory = memory;
    this.#ports.memoryArrived(object.id, memory.fds);
    releaseAll([
      // WHY here: whoever ended meanwhile did so while there was nothing to say it in.
      () => this.#words.settle(object),
      ...(earlier?.fds ?? []).map((fd) => () => this.#ports.closeFd(fd)),
    ]);
  }

  /** What a reader has of a channel without memory. The table's from here on. */
  supplyParts(lease: Lease<Fd>, parts: readonly Fd[]): void {
    this.#words.keepParts(lease, parts);
  }

  /** An object of an earlier hub, without leases yet. Names are in order after `settle`. */
  restore(record: ObjectRecord, state: RestoredState<Fd>): void {
    const object = objectOf<Fd>(record, state);
    object.account.take(costOf(object.descriptor));
    this.#addUnsorted(object);
    if (object.memory !== undefined) this.#ports.memoryArrived(object.id, object.memory.fds);
  }

  restoreLease({ id, kind, role, place }: LeaseRecord, object: SharedObject<Fd>, session: Session<Fd>): void {
    session.account.take({ leases: 1 });
    if (kind === "owner") session.account.takeHere(costOf(object.descriptor));
    this.#addLease({ id, kind, role, place: place ?? undefined, session, object });
  }

  /** Ends what nobody can hold any more, after all was restored. */
  settle(): void {
    this.#visibleNames.reset(this.#byName.values());
    for (const object of [...this.#objects.values()]) {
      chargeHolder(object);
      // WHY not the first alone: a channel that another writer may go on with is not ended anew, which could be said of that one.
      if (isHeld(object) || isAwaited(object)) this.#endIfUnused(object);
      else this.#ownerLeft(object);
    }
  }

  /** Ends in the memory of channels what an earlier hub had no time for. */
  settleChannels(): void {
    for (const object of [...this.#objects.values()]) {
      const isClosed = object.memory !== undefined && this.#words.settle(object);
      if (isClosed && object.named) this.remove(object);
    }
  }

  /** Of a session that holds nothing any more. */
  sessionEnded(session: Session<Fd>): void {
    if (session.recorded) this.#ports.holderGone(session.id);
    if (session.recorded) this.#ports.record([{ t: "session-ended", session: session.id }]);
  }

  /** The objects that this user may see and whose names follow `after`, in order. */
  *visibleAfter(peer: Peer, after: string | undefined): IterableIterator<SharedObject<Fd>> {
    for (const name of this.#visibleNames.after(peer, after)) yield this.#byName.get(name) as SharedObject<Fd>;
  }

  /** Ends every object, whatever its leases, and records nothing. */
  clear(): void {
    const fds = [...this.#leases.values()].flatMap((lease) => lease.parts ?? []);
    for (const { memory } of this.#objects.values()) fds.push(...(memory?.fds ?? []));
    this.#objects.clear();
    this.#byName.clear();
    this.#leases.clear();
    this.#visibleNames.clear();
    this.#pinnedCount = this.#withoutMemoryCount = 0;
    releaseAll(fds.map((fd) => () => this.#ports.closeFd(fd)));
  }

  /** Records, together with the session itself where the next hub would not know of it. */
  #record(session: Session<Fd>, records: readonly HubRecord[]): void {
    this.#ports.record(session.recorded ? records : [sessionRecord(session), ...records]);
    if (!session.recorded) this.#ports.holderArrived(session.id, session.connection.id);
    session.recorded = true;
  }

  #add(object: SharedObject<Fd>): void {
    this.#addUnsorted(object);
    if (object.named) this.#visibleNames.add(object);
  }

  #addUnsorted(object: SharedObject<Fd>): void {
    this.#objects.set(object.id, object);
    if (object.memory === undefined) this.#withoutMemoryCount += 1;
    if (object.named && object.lifetime === "pinned") this.#pinnedCount += 1;
    if (object.named) this.#byName.set(object.name, object);
  }

  #addLease(lease: Lease<Fd>): void {
    lease.object.leases.add(lease);
    lease.session.leases.set(lease.id, lease);
    this.#leases.set(lease.id, lease);
  }

  #unname(object: SharedObject<Fd>): void {
    object.named = false;
    if (object.lifetime === "pinned") this.#pinnedCount -= 1;
    this.#byName.delete(object.name);
    this.#visibleNames.delete(object);
  }

  /** The creator of an object, or the writer of a channel. */
  #ownerLeft(object: SharedObject<Fd>): void {
    let isClosed = false;
    if (isLost(object) && waitsForWriter(object)) this.lost.add(object);
    releaseAll([
      // WHY before all else: streams of GPUs wait for it, and their processes with them.
      () => {
        isClosed = this.#words.ownerLeft(object);
      },
      () => (staysWithoutOwner(object) && !isClosed ? this.#endIfUnused(object) : this.remove(object)),
    ]);
  }

  #endIfUnused(object: SharedObject<Fd>): void {
    // WHY: a pinned object that lost its memory with a hub, and that nobody holds, will never get it back.
    const pinned = object.named && object.lifetime === "pinned" && object.memory !== undefined;
    if (object.leases.size > 0 || pinned || !this.#objects.delete(object.id)) return;
    if (isLost(object)) this.lost.add(object);
    if (object.named) this.#unname(object);
    if (object.memory === undefined) this.#withoutMemoryCount -= 1;
    object.account.refund(costOf(object.descriptor));
    const fds = object.memory?.fds ?? [];
    releaseAll([
      () => this.#ports.memoryGone(object.id),
      ...fds.map((fd) => () => this.#ports.closeFd(fd)),
      () => this.#ports.record([{ t: "object-ended", object: object.id }]),
    ]);
  }
}
