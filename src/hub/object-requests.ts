/**
 * What clients ask of objects: creating, publishing, opening, giving back, and bringing memory back after a crash of the hub. Each
 * request is checked against who asks and what they may have; the table keeps the result.
 */
import { CudaIpcError, hasCode } from "../base/errors.js";
import { fdsOf } from "../wire/descriptor.js";
import { PRIVATE, PROTOCOL_VERSION, type Reply, type RequestOf, type ResultOf } from "../wire/messages.js";
import { checkName } from "../wire/names.js";
import { checkMayManage, checkMayOpen, checkMaySee } from "./access.js";
import type { Attachments } from "./attachments.js";
import { checkRole, grantFor } from "./channel-roles.js";
import { checkParts } from "./check-channel.js";
import { checkAccess, checkMemory, checkSameMemory, checkUse } from "./check-descriptor.js";
import { givenDescriptors } from "./given-descriptors.js";
import { inspection, listPage } from "./hub-report.js";
import type { ObjectTable } from "./object-table.js";
import type { HubPorts, Outgoing } from "./ports.js";
import { refusal } from "./refusal.js";
import type { Session } from "./sessions.js";
import type { Lease, ObjectMemory, SharedObject } from "./shared-object.js";
import { isReady, unready } from "./unready.js";
import type { WaitingOpens } from "./waiting-opens.js";

export class ObjectRequests<Fd> {
  readonly #ports: HubPorts<Fd>;
  readonly #objects: ObjectTable<Fd>;
  readonly #waiting: WaitingOpens<Fd>;

  constructor(ports: HubPorts<Fd>, objects: ObjectTable<Fd>, waiting: WaitingOpens<Fd>) {
    this.#ports = ports;
    this.#objects = objects;
    this.#waiting = waiting;
  }

  create(session: Session<Fd>, request: RequestOf<"create">, attached: Attachments<Fd>): ResultOf<"create"> {
    const { descriptor, lifetime, sharing = PRIVATE } = request;
    const name = checkName(request.name);
    const attempt = `create "${name}"`;
    const { fds } = attached;
    const { inodes, writable } = checkMemory(attempt, descriptor, fds, this.#ports);
    checkUse(attempt, { descriptor, sharing, writable }, fds, this.#ports);
    const memory: ObjectMemory<Fd> = { fds: fds as [Fd, ...Fd[]], writable };
    const createdAtMs = this.#ports.now();
    const fields = { name, lifetime, sharing, descriptor, inodes: [...inodes], writable, createdAtMs, memory };
    const lease = this.#objects.create(fields, session);
    attached.keep();
    return { object: lease.object.id, lease: lease.id };
  }

  publish(session: Session<Fd>, request: RequestOf<"publish">): ResultOf<"publish"> {
    const object = this.#objects.get(request.object);
    if (object === undefined) {
      throw new CudaIpcError("NOT_FOUND", `Cannot publish object ${request.object}: there is none of this number`);
    }
    if (object.leases.owner?.session !== session) {
      throw new CudaIpcError("NOT_OWNER", `Cannot publish "${object.name}": another process created it`);
    }
    this.#objects.publish(object);
    return {};
  }

  /**
   * Answers the opens that wait for this object, as far as it can be opened.
   * WHY later, in the turn of each who waits: thousands may, and it is their time that it takes, not the publisher's.
   */
  grantWaiting(object: SharedObject<Fd> | undefined): void {
    if (object === undefined || !object.named || !isReady(object)) return;
    const { name } = object;
    for (const session of this.#waiting.sessionsFor(name)) {
      this.#ports.later(session.connection.id, session.peer.uid, () => this.#grantFirst(session, name));
    }
  }

  /** Whether there may be more for this session. */
  #grantFirst(session: Session<Fd>, name: string): boolean {
    const object = this.#objects.find(name);
    if (object === undefined || !isReady(object)) return false;
    const request = this.#waiting.takeFirst(session, name);
    if (request === undefined) return false;
    this.#tryGrant(session, request, object);
    return true;
  }

  /** Answered here, now or later. */
  open(session: Session<Fd>, request: RequestOf<"open">): void {
    const name = checkName(request.name);
    checkRole(request);
    const object = this.#objects.find(name);
    const found = object === undefined ? this.#absence(name, session) : unready(object, session.peer);
    if (object !== undefined && found === undefined) this.#tryGrant(session, request, object);
    else if (request.wait) this.#waiting.add({ session, request });
    else throw new CudaIpcError("NOT_FOUND", `Cannot open "${name}": ${found}`);
  }

  cancel(session: Session<Fd>, request: RequestOf<"cancel">): ResultOf<"cancel"> {
    const waiting = this.#waiting.take(session.id, request.request);
    if (waiting === undefined) return {};
    const { name } = waiting.request;
    const error = new CudaIpcError("ABORTED", `Cannot open "${name}": the wait was cancelled`);
    this.#refuse(session, request.request, error);
    if (request.explain !== true) return {};
    const found = this.#whyNotYet(name, session);
    return found === undefined ? {} : { found };
  }

  release(session: Session<Fd>, request: RequestOf<"release">): ResultOf<"release"> {
    this.#objects.release(leaseOf(session, request.lease, "release"));
    return {};
  }

  /** The client still holds this lease, and may bring the memory that an earlier hub had of the object. */
  restore(session: Session<Fd>, request: RequestOf<"restore">, attached: Attachments<Fd>): ResultOf<"restore"> {
    const lease = leaseOf(session, request.lease, "restore");
    // WHY first: what a client names it holds, whatever becomes of the memory that it brings.
    session.unrestored?.delete(request.lease);
    if (attached.fds.length === 0) return {};
    if (lease.role === "reader" || lease.role === "observer") this.#bringParts(lease, attached);
    else this.#bringBack(session, lease.object, attached);
    return {};
  }

  remove(session: Session<Fd>, request: RequestOf<"remove">): ResultOf<"remove"> {
    const object = this.#named(session, request.name, "remove");
    checkMayManage(object, session.peer, "remove");
    this.#objects.remove(object);
    return {};
  }

  list(session: Session<Fd>, request: RequestOf<"list">): ResultOf<"list"> {
    return listPage(this.#objects.visibleAfter(session.peer, request.after));
  }

  inspect(session: Session<Fd>, request: RequestOf<"inspect">): ResultOf<"inspect"> {
    const object = this.#named(session, request.name, "inspect");
    checkMaySee(object, session.peer);
    return inspection(object);
  }

  #bringBack(session: Session<Fd>, object: SharedObject<Fd>, attached: Attachments<Fd>): void {
    const attempt = `bring back the memory of "${object.name}"`;
    const [memory, ...rest] = attached.fds as [Fd, ...Fd[]];
    const wanted = fdsOf(object.descriptor);
    if (attached.fds.length !== wanted) {
      const found = `${attached.fds.length} descriptors came with it, wanted ${wanted}`;
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot ${attempt}: ${found}`);
    }
    if (object.descriptor.mechanism !== "memfd") checkMayManage(object, session.peer, "bring back the memory of");
    const found = checkMemory(attempt, object.descriptor, attached.fds, this.#ports);
    checkSameMemory(attempt, object, found);
    if (object.memory !== undefined && (object.memory.writable || !found.writable)) return;
    // WHY: a reader brings what it was given, and the next writer wants what the creator gave.
    const twin = object.writable && !found.writable ? this.#ports.reopenWritable(memory) : undefined;
    attached.keep();
    if (twin !== undefined) this.#ports.closeFd(memory);
    this.#objects.supply(object, { fds: [twin ?? memory, ...rest], writable: found.writable || twin !== undefined });
    this.grantWaiting(object);
  }

  /** What a reader of a channel has; an observer has nothing that the hub could use. */
  #bringParts(lease: Lease<Fd>, attached: Attachments<Fd>): void {
    checkParts(`bring back "${lease.object.name}"`, lease, attached.fds, this.#ports);
    if (lease.object.memory !== undefined) return;
    attached.keep();
    this.#objects.supplyParts(lease, attached.fds);
  }

  // WHY caught here: a grant may happen on somebody else's publish, who must not get this reader's error.
  #tryGrant(session: Session<Fd>, request: RequestOf<"open">, object: SharedObject<Fd>): void {
    try {
      this.#grant(session, request, object);
    } catch (error) {
      this.#refuse(session, request.id, error);
    }
  }

  #grant(session: Session<Fd>, request: RequestOf<"open">, object: SharedObject<Fd>): void {
    checkMayOpen(object, session.peer, request.access);
    const grant = grantFor(object, request);
    checkAccess(object, request.access);
    const given = givenDescriptors(object, grant, this.#ports);
    try {
      const lease = this.#objects.lease(object, session, grant);
      const result: ResultOf<"open"> = { object: object.id, lease: lease.id, descriptor: object.descriptor };
      if (lease.place !== undefined) result.place = lease.place;
      const reply: Reply = { v: PROTOCOL_VERSION, id: request.id, ok: true, result };
      this.#ports.reply(session.connection.id, reply, given.fds, () => this.#grantedAgain(lease, reply));
    } finally {
      given.close();
    }
  }

  /**
   * The answer to an open that could not be sent when it was granted. WHY made anew: nobody keeps descriptors for those who do not read.
   * @throws TOO_MANY_FDS
   */
  #grantedAgain(lease: Lease<Fd>, reply: Reply): Outgoing<Fd> {
    const { object, session } = lease;
    const refused = (error: unknown) => ({ reply: refusal(reply.id, error), fds: [], close: () => {} });
    if (object.memory === undefined || session.leases.get(lease.id) !== lease) {
      const found = "the lease had ended before the answer was read";
      return refused(new CudaIpcError("NOT_FOUND", `Cannot open "${object.name}": ${found}`));
    }
    try {
      return { reply, ...givenDescriptors(object, lease, this.#ports) };
    } catch (error) {
      if (hasCode(error, "TOO_MANY_FDS")) throw error;
      this.#objects.release(lease);
      return refused(error);
    }
  }

  #named(session: Session<Fd>, name: string, verb: string): SharedObject<Fd> {
    const object = this.#objects.find(checkName(name));
    if (object !== undefined) return object;
    throw new CudaIpcError("NOT_FOUND", `Cannot ${verb} "${name}": ${this.#absence(name, session)}`);
  }

  #absence(name: string, { peer }: Session<Fd>): string {
    return this.#objects.lost.wordsFor(name, peer) ?? "no object of this name is shared";
  }

  /** For who has waited for this name in vain. */
  #whyNotYet(name: string, { peer }: Session<Fd>): string | undefined {
    const object = this.#objects.find(name);
    if (object !== undefined) return unready(object, peer);
    return this.#objects.lost.wordsFor(name, peer) ?? `no process has created "${name}"`;
  }

  #refuse(session: Session<Fd>, request: number, error: unknown): void {
    this.#ports.reply(session.connection.id, refusal(request, error), []);
  }
}

/** @throws NOT_FOUND */
function leaseOf<Fd>(session: Session<Fd>, id: number, verb: string): Lease<Fd> {
  const lease = session.leases.get(id);
  if (lease !== undefined) return lease;
  throw new CudaIpcError("NOT_FOUND", `Cannot ${verb} lease ${id}: this client does not hold it`);
}
