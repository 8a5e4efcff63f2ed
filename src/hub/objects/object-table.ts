/**
 * The lifetimes of shared objects. An object exists as long as its lifetime says, and the hub
 * closes its descriptors exactly when it ends.
 *
 *   created --publish--> published --remove--> unnamed
 *      |                     |                    |
 *      +-- owner's lease     +-- held: last       +-- last lease ends
 *          ends                  lease ends
 *
 * An object that replaces another one has no name until it is published. Then the name passes to it
 * in one step, and the other object is unnamed.
 *
 * A timeline keeps its name as long as its owner's lease, and ends for everybody with that lease,
 * unless it waits for its next owner. So does legacy memory, which only its owner keeps alive.
 * After a crash of the hub an object has no memory until one of its holders brings it back.
 */
import { releaseAll } from "../../base/scope.js";
import type { HubPorts } from "../core/ports.js";
import type { Session } from "../core/sessions.js";
import type { Account } from "../limits/quota.js";
import {
  leaseRecord,
  objectOf,
  objectRecord,
  type RestoredState,
  sessionRecord,
} from "../restart/as-records.js";
import type { HubRecord, LeaseRecord, ObjectRecord } from "../restart/hub-records.js";
import { LostObjects } from "./lost-objects.js";
import { nameTaken } from "./name-taken.js";
import { ObjectIndex } from "./object-index.js";
import type { Grant, Lease, NewObject, ObjectMemory, SharedObject } from "./shared-object.js";
import {
  chargeHolder,
  costOf,
  hasWriter,
  isAwaited,
  isHeld,
  isLost,
  ObjectLeases,
  staysWithoutOwner,
  takesNameLater,
  waitsForWriter,
} from "./shared-object.js";
import { partsOf, WordsInMemory, type WordsPorts } from "./words-in-memory.js";

export type ObjectPorts<Fd> = WordsPorts<Fd> &
  Pick<
    HubPorts<Fd>,
    | "record"
    | "memoryArrived"
    | "memoryGone"
    | "holderArrived"
    | "holderGone"
    | "objectLost"
    | "now"
  >;

export class ObjectTable<Fd> {
  readonly index = new ObjectIndex<Fd>();
  readonly lost: LostObjects;
  readonly #ports: ObjectPorts<Fd>;
  readonly #words: WordsInMemory<Fd>;
  readonly #nextId: () => number;
  readonly #onRelease: (lease: Lease<Fd>) => void;

  /**
   * @param nextId never returns the same number twice
   * @param onRelease called after a lease has ended
   */
  constructor(ports: ObjectPorts<Fd>, nextId: () => number, onRelease: (lease: Lease<Fd>) => void) {
    this.#ports = ports;
    this.#onRelease = onRelease;
    this.lost = new LostObjects(ports);
    this.#words = new WordsInMemory(ports);
    this.#nextId = nextId;
  }

  /**
   * Adds an object with its owner's lease, and takes over its descriptors unless it throws.
   * @throws NAME_TAKEN, LIMIT_EXCEEDED
   */
  create(fields: NewObject<Fd>, session: Session<Fd>): Lease<Fd> {
    const { name, replace } = fields;
    const found = replace === undefined ? this.index.find(name) : undefined;
    if (found !== undefined) throw nameTaken(`create "${name}"`, found, session.peer);
    const { pid, uid, gid } = session.peer;
    const account = session.account.parent as Account;
    const object: SharedObject<Fd> = {
      ...fields,
      id: this.#nextId(),
      owner: { pid, uid, gid },
      account,
      leases: new ObjectLeases(),
      published: false,
      named: replace === undefined,
      changedAt: 0,
      releasedAtMs: 0,
    };
    const lease: Lease<Fd> = {
      id: this.#nextId(),
      kind: "owner",
      role: hasWriter(object) ? "writer" : undefined,
      seat: undefined,
      sinceMs: fields.createdAtMs,
      session,
      object,
    };
    const cost = { ...costOf(object), leases: 1 };
    session.account.charge(`create "${name}"`, cost);
    try {
      this.#record(session, [objectRecord(object), leaseRecord(lease)]);
    } catch (error) {
      session.account.refund(cost);
      throw error;
    }
    if (object.named) this.lost.forget(name);
    this.index.add(object);
    this.index.addLease(lease);
    this.#ports.memoryArrived(object.id, fields.memory.fds);
    return lease;
  }

  /** Takes the name from the object that has it, if this one replaces it. */
  publish(object: SharedObject<Fd>): void {
    if (object.published) return;
    const takesName = takesNameLater(object);
    const replaced = takesName ? this.index.find(object.name) : undefined;
    const from = replaced === undefined ? {} : { replaced: replaced.id };
    const users = takesName
      ? this.index.services.decide(object, object.serviceUsers ?? [object.owner.uid])
      : undefined;
    const decided = users === undefined ? {} : { serviceUsers: users };
    this.#ports.record([{ t: "published", object: object.id, ...from, ...decided }]);
    object.published = true;
    if (takesName) {
      if (users !== undefined) object.serviceUsers = users;
      if (replaced !== undefined) this.index.unname(replaced);
      this.lost.forget(object.name);
      this.index.name(object);
    }
    this.index.changes.changed(object);
    if (replaced !== undefined) this.#nameLost(replaced);
  }

  /** @throws LIMIT_EXCEEDED */
  lease(object: SharedObject<Fd>, session: Session<Fd>, grant: Grant): Lease<Fd> {
    session.account.charge(`open "${object.name}"`, { leases: 1 });
    const sinceMs = this.#ports.now();
    const lease: Lease<Fd> = { id: this.#nextId(), ...grant, session, object, sinceMs };
    try {
      this.#record(session, [leaseRecord(lease)]);
    } catch (error) {
      session.account.refund({ leases: 1 });
      throw error;
    }
    this.index.addLease(lease);
    try {
      this.#words.begin(lease);
    } catch (error) {
      this.release(lease);
      throw error;
    }
    return lease;
  }

  release(lease: Lease<Fd>): void {
    if (!this.index.deleteLease(lease)) return;
    const { object, session } = lease;
    object.releasedAtMs = this.#ports.now();
    session.account.refund({ leases: 1 });
    if (lease.kind === "owner") session.account.refundHere(costOf(object));
    this.#ports.record([{ t: "released", lease: lease.id }]);
    chargeHolder(object);
    releaseAll([
      () => this.#words.holderLeft(lease),
      () => {
        if (lease.kind === "owner" || lease.role === "writer") this.#ownerLeft(object);
        else this.#endIfUnused(object);
      },
      () => this.#onRelease(lease),
    ]);
  }

  /** Has the writer of a channel wait for this reader no more. Its seat stays taken. */
  endReader(lease: Lease<Fd>): void {
    if (lease.session.leases.has(lease.id)) this.#words.readerEnded(lease);
  }

  /** Takes the name away at once. The memory stays until the last lease ends. */
  remove(object: SharedObject<Fd>): void {
    if (object.named) {
      this.index.unname(object);
      this.#ports.record([{ t: "unnamed", object: object.id }]);
    }
    this.#nameLost(object);
  }

  #nameLost(object: SharedObject<Fd>): void {
    chargeHolder(object);
    releaseAll([
      // No writer can find it any more to go on with it.
      () =>
        hasWriter(object) && object.leases.writer === undefined
          ? this.#words.ownerLeft(object)
          : undefined,
      () => this.#endIfUnused(object),
    ]);
  }

  /** Takes over memory that a holder brought back, and closes the memory that was there. */
  supply(object: SharedObject<Fd>, memory: ObjectMemory<Fd>): void {
    const earlier = object.memory;
    if (earlier === undefined) this.index.memoryFound(object);
    object.memory = memory;
    this.#ports.memoryArrived(object.id, memory.fds);
    releaseAll([
      // The ends of holders could not be written while the memory was missing.
      () => this.#words.settle(object),
      ...(earlier?.fds ?? []).map((fd) => () => this.#ports.closeFd(fd)),
    ]);
  }

  /** Takes over what a reader has of a channel without memory. */
  supplyParts(lease: Lease<Fd>, parts: NonNullable<Lease<Fd>["parts"]>): void {
    this.#words.keepParts(lease, parts);
  }

  /** Adds an object of an earlier hub, still without leases. Call `settle` after the last one. */
  restore(record: ObjectRecord, state: RestoredState<Fd>): void {
    const object = objectOf<Fd>(record, state);
    object.account.take(costOf(object));
    this.index.addUnsorted(object);
    if (object.memory !== undefined) this.#ports.memoryArrived(object.id, object.memory.fds);
  }

  restoreLease(
    { id, kind, role, place, sinceMs }: LeaseRecord,
    object: SharedObject<Fd>,
    session: Session<Fd>,
  ): void {
    session.account.take({ leases: 1 });
    if (kind === "owner") session.account.takeHere(costOf(object));
    const seat = place ?? undefined;
    this.index.addLease({ id, kind, role, seat, session, object, sinceMs });
  }

  /** Ends the objects that nobody can hold any more. Call it after everything is restored. */
  settle(): void {
    this.index.sortNames();
    // WHY anew: the journal has no times of ends. So nothing seems unused for longer than it is.
    const releasedAtMs = this.#ports.now();
    for (const object of [...this.index.objects()]) {
      object.releasedAtMs = releasedAtMs;
      chargeHolder(object);
      // WHY isAwaited too: ending such a channel again could end it for the next writer.
      if (isHeld(object) || isAwaited(object)) this.#endIfUnused(object);
      else this.#ownerLeft(object);
    }
  }

  /** Writes the ends into the memory of channels that an earlier hub had no time to write. */
  settleChannels(): void {
    for (const object of [...this.index.objects()]) {
      const isClosed = object.memory !== undefined && this.#words.settle(object);
      if (isClosed && object.named) this.remove(object);
    }
  }

  /** Forgets a session that holds nothing any more. */
  sessionEnded(session: Session<Fd>): void {
    if (!session.recorded) return;
    this.#ports.holderGone(session.id);
    this.#ports.record([{ t: "session-ended", session: session.id }]);
  }

  /** Closes every object whatever its leases, and records nothing. */
  clear(): void {
    const fds = [...this.index.leases()].flatMap(({ parts }) => partsOf(parts));
    for (const { memory } of this.index.objects()) fds.push(...(memory?.fds ?? []));
    this.index.clear();
    releaseAll(fds.map((fd) => () => this.#ports.closeFd(fd)));
  }

  /** Adds the session's own record if the journal does not have it yet. */
  #record(session: Session<Fd>, records: readonly HubRecord[]): void {
    this.#ports.record(session.recorded ? records : [sessionRecord(session), ...records]);
    if (!session.recorded) this.#ports.holderArrived(session.id, session.connection.id);
    session.recorded = true;
  }

  /** The creator of an object, or the writer of a channel, has gone. */
  #ownerLeft(object: SharedObject<Fd>): void {
    let isClosed = false;
    if (isLost(object) && waitsForWriter(object)) this.lost.add(object);
    releaseAll([
      // First, because GPU streams and their processes wait for it.
      () => {
        isClosed = this.#words.ownerLeft(object);
      },
      () =>
        staysWithoutOwner(object) && !isClosed ? this.#endIfUnused(object) : this.remove(object),
    ]);
  }

  #endIfUnused(object: SharedObject<Fd>): void {
    // Nobody will bring back the memory of a pinned object that lost it and has no holder.
    const pinned = object.named && object.lifetime === "pinned" && object.memory !== undefined;
    if (object.leases.size > 0 || pinned || !this.index.delete(object)) return;
    if (isLost(object)) this.lost.add(object);
    if (object.named) this.index.unname(object);
    object.account.refund(costOf(object));
    const fds = object.memory?.fds ?? [];
    releaseAll([
      () => this.#ports.memoryGone(object.id),
      ...fds.map((fd) => () => this.#ports.closeFd(fd)),
      () => this.#ports.record([{ t: "object-ended", object: object.id }]),
    ]);
  }
}
