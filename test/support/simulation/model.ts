/**
 * The simplest model of a hub's promises: who holds what, which names exist, and what waits. It is
 * told each event and knows what must follow. It has no descriptors, messages or records.
 */

import type { ErrorCode } from "../../../src/base/error-codes.js";
import type { ConnectionId, Peer } from "../../../src/hub/core/ports.js";
import type { RequestOf } from "../../../src/wire/messages.js";
import {
  bellsOf,
  channelOfObject,
  checkEndedByParts,
  freePlaces,
  hasWriter,
  isAwaited,
  isClosedAndUnheld,
  isOrphan,
  roomBellOf,
  writerOf,
} from "./channel-rules.js";
import { isSameProcess } from "./identity.js";
import { endsWithOwner, requestsOfNobody } from "./memory-rules.js";
import { ModelAccounts } from "./model-accounts.js";
import type {
  ModelConnection,
  ModelLease,
  ModelObject,
  ModelSession,
  ModelWait,
} from "./model-state.js";
import { Tally } from "./tally.js";
import type { File, Held } from "./world.js";

export type { ModelConnection, ModelLease, ModelObject, ModelSession, ModelWait };

export class Model extends ModelAccounts {
  /** Publications that wait for the keeper. */
  readonly publishes: {
    readonly object: number;
    readonly connection: ConnectionId;
    readonly request: number;
  }[] = [];
  /** Drains that wait: the owner's session and the request. */
  readonly drains = new Map<ModelObject, { session: ModelSession; request: number }>();
  /** Answers to drains in the current event, and whether each one succeeded. */
  readonly drained: {
    readonly connection: ConnectionId;
    readonly request: number;
    readonly failure: ErrorCode | undefined;
  }[] = [];
  readonly connections = new Map<ConnectionId, ModelConnection>();
  readonly sessions = new Map<number, ModelSession>();
  readonly objects = new Map<number, ModelObject>();
  readonly names = new Map<string, ModelObject>();
  /** By name, then by session in order of arrival. */
  readonly waits = new Map<string, Map<ModelSession, Set<ModelWait>>>();
  /** Timelines that must end in the current event. */
  readonly toBeEnded: File[] = [];
  /**
   * Bells that must ring. The sets are channels to check, and channels that readers' files ended.
   */
  readonly toBeRung: File[] = [];
  readonly touched = new Set<ModelObject>();
  readonly endedByParts = new Set<ModelObject>();

  get attached(): number {
    return [...this.connections.values()].filter(({ attached }) => attached).length;
  }

  /** True if this process has more disconnected sessions than connections that may resume them. */
  mayComeBack(peer: Peer): boolean {
    const own = [...this.connections.values()].filter((connection) =>
      isSameProcess(connection.peer, peer),
    );
    const lost = own.filter(({ attached }) => !attached);
    return lost.length > own.filter(({ attached, counted }) => attached && !counted).length;
  }

  connect(id: ConnectionId, peer: Peer, counted = true): ModelConnection {
    const connection: ModelConnection = {
      id,
      peer,
      attached: true,
      counted: false,
      session: undefined,
    };
    this.connections.set(id, connection);
    if (counted) this.#countClient(connection);
    return connection;
  }

  begin(id: number, connection: ModelConnection, recorded = false): ModelSession {
    this.#countClient(connection);
    const tally = new Tally("limits.client", this.policy.limits.client);
    const session: ModelSession = {
      id,
      peer: connection.peer,
      tally,
      leases: new Map(),
      waits: new Map(),
      connection,
      unrestored: undefined,
      recorded,
      disconnected: false,
    };
    connection.session = session;
    this.sessions.set(id, session);
    return session;
  }

  /** @returns the connection that this one replaces */
  resume(session: ModelSession, connection: ModelConnection): ConnectionId {
    const earlier = session.connection;
    this.#forget(earlier);
    this.#countClient(connection);
    this.dropWaits(session);
    session.connection = connection;
    session.unrestored = new Set(session.leases.keys());
    connection.session = session;
    return earlier.id;
  }

  /** Its readers lose their seats. All leases stay. */
  disconnect(session: ModelSession): void {
    this.dropWaits(session);
    if (session.disconnected) return;
    session.disconnected = true;
    for (const { object, place } of session.leases.values()) {
      if (place === undefined || object.memory === undefined) continue;
      this.toBeRung.push(roomBellOf(object));
      this.touched.add(object);
    }
  }

  hungUp(id: ConnectionId): void {
    const connection = this.connections.get(id);
    if (connection === undefined) return;
    connection.attached = false;
    if (connection.session !== undefined) this.dropWaits(connection.session);
    if (connection.session === undefined || connection.session.leases.size === 0) this.ended(id);
  }

  /** Ends a session, because its process ended or said goodbye. */
  ended(id: ConnectionId): void {
    const connection = this.connections.get(id);
    if (connection === undefined) return;
    this.#forget(connection);
    const { session } = connection;
    if (session === undefined) return;
    this.sessions.delete(session.id);
    this.dropWaits(session);
    for (const lease of [...session.leases.values()]) this.endLease(lease);
  }

  addObject(object: ModelObject): void {
    this.objects.set(object.id, object);
    if (object.named) this.names.set(object.name, object);
    this.count(object.payer, object.uses);
    this.countMemory(object, 1);
  }

  /** If the creator has released the object, its oldest holder pays for it. */
  #charge(object: ModelObject): void {
    const [first] = object.leases.values();
    if (object.named || object.ownerLease !== undefined || first === undefined) return;
    this.count(object.payer, object.uses, -1);
    object.payer = first.session.peer.uid;
    this.count(object.payer, object.uses);
  }

  addLease(
    id: number,
    { kind, role, place }: Pick<ModelLease, "kind" | "role" | "place">,
    session: ModelSession,
    object: ModelObject,
  ): void {
    const lease: ModelLease = { id, kind, role, place, hasParts: false, session, object };
    this.touched.add(object);
    object.leases.set(id, lease);
    if (role === "reader") object.hadReader = true;
    session.leases.set(id, lease);
    session.tally.add({ leases: 1 });
    this.count(session.peer.uid, { leases: 1 });
    if (kind !== "owner") return;
    object.ownerLease = lease;
    session.tally.add(object.uses);
  }

  endLease(lease: ModelLease): void {
    const { id, kind, role, place, session, object } = lease;
    this.touched.add(object);
    this.#dropParts(lease);
    if (place !== undefined && object.memory !== undefined) this.toBeRung.push(roomBellOf(object));
    object.leases.delete(id);
    session.leases.delete(id);
    session.unrestored?.delete(id);
    session.tally.add({ leases: 1 }, -1);
    this.count(session.peer.uid, { leases: 1 }, -1);
    if (kind === "owner") {
      object.ownerLease = undefined;
      session.tally.add(object.uses, -1);
    }
    this.#charge(object);
    if (kind === "owner" || role === "writer") this.#ownerLeft(object);
    else this.#endIfUnused(object);
    if (kind === "owner") this.endDrain(object, false);
    else if (isDrained(object)) this.endDrain(object, true);
    const requests = requestsOfNobody(this, object);
    if (requests !== undefined) this.#refuseWaits(requests);
  }

  #refuseWaits(name: string): void {
    for (const ofSession of [...(this.waits.get(name)?.values() ?? [])])
      for (const wait of [...ofSession]) {
        const { session, request } = wait;
        this.endWait(wait);
        const connection = session.connection.id;
        this.drained.push({ connection, request: request.id, failure: "NOT_FOUND" });
      }
  }

  /** Answers a drain that waits. */
  endDrain(object: ModelObject, ok: boolean): void {
    const drain = this.drains.get(object);
    if (drain === undefined || !this.drains.delete(object)) return;
    const connection = drain.session.connection.id;
    const failure = ok ? undefined : "ABORTED";
    this.drained.push({ connection, request: drain.request, failure });
  }

  remove(object: ModelObject): void {
    if (object.named) this.names.delete(object.name);
    object.named = false;
    this.#charge(object);
    this.touched.add(object);
    if (hasWriter(object) && writerOf(object) === undefined) this.#writerLeft(object);
    this.#endIfUnused(object);
  }

  /** The object gets its name, and the one that has it loses it. */
  takeName(object: ModelObject): void {
    const replaced = this.names.get(object.name);
    object.named = true;
    this.names.set(object.name, object);
    if (replaced === undefined) return;
    replaced.named = false;
    this.remove(replaced);
  }

  /** Keeps the files that a reader of a channel brought. */
  keepParts(lease: ModelLease): void {
    if (lease.object.memory !== undefined) return;
    this.#dropParts(lease);
    lease.hasParts = true;
    this.fdCount += 2;
    if (writerOf(lease.object) === undefined) this.#endByParts(lease);
  }

  supply(object: ModelObject, memory: readonly Held[]): void {
    this.countMemory(object, -1);
    object.memory = memory;
    this.countMemory(object, 1);
    this.touched.add(object);
    for (const lease of object.leases.values()) this.#dropParts(lease);
    this.#settleFiles(object);
  }

  /** Ends what cannot go on after a crash. */
  settle(): void {
    for (const object of [...this.objects.values()]) {
      this.touched.add(object);
      this.#charge(object);
      if (isOrphan(object) && !isAwaited(object) && !isClosedAndUnheld(object))
        this.#ownerLeft(object);
      else this.#endIfUnused(object);
      if (this.objects.has(object.id)) this.#settleFiles(object);
    }
    for (const { id, attached, session } of [...this.connections.values()])
      if (!attached && (session === undefined || session.leases.size === 0)) this.ended(id);
  }

  addWait(session: ModelSession, request: RequestOf<"open">): void {
    const wait: ModelWait = { session, request };
    session.waits.set(request.id, wait);
    this.#queue(wait);
    this.countWait(wait, 1);
  }

  endWait(wait: ModelWait): void {
    const { session, request } = wait;
    session.waits.delete(request.id);
    const ofName = this.waits.get(request.name);
    ofName?.get(session)?.delete(wait);
    if (ofName?.get(session)?.size === 0) ofName.delete(session);
    if (ofName?.size === 0) this.waits.delete(request.name);
    this.countWait(wait, -1);
  }

  dropWaits(session: ModelSession): void {
    for (const wait of [...session.waits.values()]) this.endWait(wait);
    for (const [object, drain] of this.drains)
      if (drain.session === session) this.drains.delete(object);
  }

  #queue(wait: ModelWait) {
    const { session, request } = wait;
    const ofName = this.waits.get(request.name) ?? new Map<ModelSession, Set<ModelWait>>();
    const ofSession = ofName.get(session) ?? new Set();
    this.waits.set(request.name, ofName.set(session, ofSession.add(wait)));
  }

  #countClient(connection: ModelConnection): void {
    if (!connection.counted) this.count(connection.peer.uid, { clients: 1 });
    connection.counted = true;
  }

  #forget(connection: ModelConnection): void {
    this.connections.delete(connection.id);
    if (connection.counted) this.count(connection.peer.uid, { clients: 1 }, -1);
    connection.attached = false;
  }

  #ownerLeft(object: ModelObject): void {
    if (hasWriter(object)) {
      this.#writerLeft(object);
      if (isAwaited(object)) this.#endIfUnused(object);
      else this.remove(object);
      return;
    }
    this.#endTimeline(object);
    if (object.published && !endsWithOwner(object.descriptor)) this.#endIfUnused(object);
    else this.remove(object);
  }

  #writerLeft(object: ModelObject): void {
    if (channelOfObject(object) === undefined) {
      if (!isAwaited(object)) this.#endTimeline(object);
    } else if (object.memory !== undefined) this.toBeRung.push(...bellsOf(object));
    else for (const lease of object.leases.values()) this.#endByParts(lease);
  }

  /** Writes the end of a gone owner or writer into memory that came back. */
  #settleFiles(object: ModelObject): void {
    if (object.memory === undefined) return;
    if (channelOfObject(object) !== undefined && freePlaces(object).length > 0)
      this.toBeRung.push(roomBellOf(object));
    if (!isOrphan(object)) return;
    if (hasWriter(object)) this.#writerLeft(object);
    else this.#endTimeline(object);
  }

  #endByParts(lease: ModelLease): void {
    if (!lease.hasParts) return;
    const bell = lease.object.files[4 + 2 * (lease.place ?? 0)];
    if (bell !== undefined) this.toBeRung.push(bell);
    this.endedByParts.add(lease.object);
    this.#dropParts(lease);
  }

  #dropParts(lease: ModelLease): void {
    if (lease.hasParts) this.fdCount -= 2;
    lease.hasParts = false;
  }

  /** Checks the objects of the event, and forgets them. */
  checkFiles(check: (object: ModelObject) => void): void {
    for (const object of this.touched) if (this.objects.has(object.id)) check(object);
    for (const object of this.endedByParts) checkEndedByParts(object);
    this.touched.clear();
    this.endedByParts.clear();
    this.toBeRung.length = 0;
  }

  #endTimeline({ descriptor, memory }: ModelObject): void {
    const [held] = memory ?? [];
    if (endsWithOwner(descriptor) && held?.writable) this.toBeEnded.push(held.file);
  }

  #endIfUnused(object: ModelObject): void {
    const pinned = object.named && object.pinned && object.memory !== undefined;
    if (object.leases.size > 0 || pinned) return;
    if (!this.objects.delete(object.id)) return;
    if (object.named) this.names.delete(object.name);
    this.count(object.payer, object.uses, -1);
    this.countMemory(object, -1);
  }
}

/** Whether the owner's lease is the only one. */
export function isDrained({ leases, ownerLease }: ModelObject): boolean {
  return leases.size === 1 && ownerLease !== undefined;
}
