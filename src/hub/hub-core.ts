/**
 * What the hub does with each message and each death: a state machine without sockets, clock or processes of its own.
 * Requests and ends of sessions go in; replies, hang-ups and closed descriptors come out through HubPorts.
 */
import { CudaIpcError } from "../base/errors.js";
import { limits } from "../base/limits.js";
import { decodeRequest, idOf } from "../wire/codec.js";
import { fdsOf } from "../wire/descriptor.js";
import { PROTOCOL_VERSION, type Request, type RequestOf, type ResultOf } from "../wire/messages.js";
import { checkName } from "../wire/names.js";
import { checkAccess, checkDescriptor } from "./check-descriptor.js";
import { hubStatus, inspection, listPage } from "./hub-report.js";
import { ObjectTable, type SharedObject } from "./object-table.js";
import type { HubIdentity, HubPorts, SessionId } from "./ports.js";
import { refusal } from "./refusal.js";
import { type WaitingOpen, WaitingOpens } from "./waiting-opens.js";

interface Session {
  readonly id: SessionId;
  readonly pid: number;
  program: string;
  greeted: boolean;
  readonly leases: Set<number>;
}

export class HubCore<Fd> {
  readonly identity: HubIdentity;
  readonly #ports: HubPorts<Fd>;
  readonly #objects: ObjectTable<Fd>;
  readonly #waiting = new WaitingOpens();
  readonly #sessions = new Map<SessionId, Session>();

  constructor(identity: HubIdentity, ports: HubPorts<Fd>) {
    this.identity = identity;
    this.#ports = ports;
    this.#objects = new ObjectTable(ports);
  }

  get sessionCount(): number {
    return this.#sessions.size;
  }

  get objectCount(): number {
    return this.#objects.size;
  }

  hasSession(id: SessionId): boolean {
    return this.#sessions.has(id);
  }

  sessionStarted(id: SessionId, pid: number): void {
    this.#sessions.set(id, { id, pid, program: "", greeted: false, leases: new Set() });
  }

  /** Nobody reads replies any more. What the session holds stays until `sessionEnded`; a session that holds nothing ends now. */
  sessionHungUp(id: SessionId): void {
    this.#waiting.dropSession(id);
    if (this.#sessions.get(id)?.leases.size === 0) this.sessionEnded(id);
  }

  /** The session's process has ended, or said goodbye: everything that it holds is given back. */
  sessionEnded(id: SessionId): void {
    const session = this.#sessions.get(id);
    if (session === undefined) return;
    this.#sessions.delete(id);
    this.#waiting.dropSession(id);
    for (const leaseId of session.leases) {
      const lease = this.#objects.findLease(leaseId);
      if (lease !== undefined) this.#objects.release(lease);
    }
  }

  /** Handles one packet; the descriptors are the core's from here on. A packet that is no request ends its session. */
  packet(id: SessionId, bytes: Uint8Array, fds: readonly Fd[]): void {
    const session = this.#sessions.get(id);
    const kept = new Set<Fd>();
    try {
      if (session === undefined) return;
      this.#handle(session, decodeRequest(bytes), fds, kept);
    } catch (error) {
      this.refuse(id, idOf(bytes), error);
      this.#ports.hangUp(id);
    } finally {
      for (const fd of fds) if (!kept.has(fd)) this.#ports.closeFd(fd);
    }
  }

  /**
   * A packet that arrived without all of its descriptors or bytes. Lost descriptors are the hub's own shortage and answered as
   * an error; a packet over the limit breaks the protocol and ends its session.
   */
  damagedPacket(id: SessionId, bytes: Uint8Array, damage: CudaIpcError): void {
    this.refuse(id, idOf(bytes), damage);
    if (damage.code === "MESSAGE_TOO_LARGE") this.#ports.hangUp(id);
  }

  /** Answers a request with an error. */
  refuse(session: SessionId, request: number, error: unknown): void {
    this.#ports.reply(session, refusal(request, error), []);
  }

  /** Ends all objects. */
  close(): void {
    this.#objects.clear();
    this.#sessions.clear();
  }

  #handle(session: Session, request: Request, fds: readonly Fd[], kept: Set<Fd>): void {
    if (!session.greeted && request.op !== "hello") {
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot take "${request.op}": the first message is "hello"`);
    }
    const expected = request.op === "create" ? fdsOf(request.descriptor) : 0;
    try {
      if (fds.length !== expected) {
        throw new CudaIpcError(
          "INVALID_MESSAGE",
          `Cannot take "${request.op}": ${fds.length} descriptors came with it, wanted ${expected}`,
        );
      }
      const result = this.#dispatch(session, request, fds, kept);
      if (result !== undefined) this.#answer(session.id, request, result);
    } catch (error) {
      this.refuse(session.id, request.id, error);
      return;
    }
    this.#afterAnswer(session, request);
  }

  /** What a request brings about once its answer is on the way. */
  #afterAnswer(session: Session, request: Request): void {
    if (request.op === "publish") this.#grantWaiting(request.object);
    if (request.op === "stop") this.#ports.stop();
    if (request.op === "bye") {
      this.sessionEnded(session.id);
      this.#ports.hangUp(session.id);
    }
  }

  /** The result to answer with; undefined for an `open`, which is answered when it is granted. */
  #dispatch(session: Session, request: Request, fds: readonly Fd[], kept: Set<Fd>): object | undefined {
    switch (request.op) {
      case "hello":
        return this.#hello(session, request);
      case "create":
        return this.#create(session, request, fds, kept);
      case "publish":
        return this.#publish(session, request);
      case "open":
        this.#open(session, request);
        return undefined;
      case "cancel":
        return this.#cancel(session, request);
      case "release":
        return this.#release(session, request);
      case "remove":
        return this.#remove(request);
      case "list":
        return this.#list(request);
      case "inspect":
        return this.#inspect(request);
      case "status":
        return this.#status();
      case "stop":
        return this.#stop(request);
      case "bye":
        return {};
    }
  }

  #hello(session: Session, request: RequestOf<"hello">): ResultOf<"hello"> {
    session.greeted = true;
    session.program = request.client.program;
    const { version, instance, pid } = this.identity;
    return { version, instance, pid };
  }

  #create(session: Session, request: RequestOf<"create">, fds: readonly Fd[], kept: Set<Fd>): ResultOf<"create"> {
    const { descriptor, lifetime } = request;
    const name = checkName(request.name);
    checkRoom(session, `create "${name}"`);
    const [memory, index] = fds;
    if (memory === undefined) throw new TypeError("create without its memory");
    checkDescriptor(name, descriptor, fds, this.#ports);
    const fields = { name, lifetime, descriptor, memory, index, createdAtMs: this.#ports.now(), ownerPid: session.pid };
    const { object, lease } = this.#objects.create(fields, session.id);
    for (const fd of fds) kept.add(fd);
    session.leases.add(lease.id);
    return { object: object.id, lease: lease.id };
  }

  #publish(session: Session, request: RequestOf<"publish">): ResultOf<"publish"> {
    const object = this.#objects.get(request.object);
    if (object === undefined) {
      throw new CudaIpcError("NOT_FOUND", `Cannot publish object ${request.object}: there is none of this number`);
    }
    const owner = [...object.leases.values()].find((lease) => lease.kind === "owner");
    if (owner?.session !== session.id) {
      throw new CudaIpcError("NOT_OWNER", `Cannot publish "${object.name}": another process created it`);
    }
    object.published = true;
    return {};
  }

  #grantWaiting(objectId: number): void {
    const object = this.#objects.get(objectId);
    if (object === undefined || !object.named) return;
    for (const waiting of this.#waiting.takeName(object.name)) {
      const reader = this.#sessions.get(waiting.session);
      if (reader !== undefined) this.#tryGrant(reader, waiting.request, object);
    }
  }

  #open(session: Session, request: RequestOf<"open">): void {
    const name = checkName(request.name);
    const object = this.#objects.find(name);
    if (object?.published) {
      this.#tryGrant(session, request, object);
      return;
    }
    if (!request.wait) {
      const found = object === undefined ? "no object of this name is shared" : "it is not published yet";
      throw new CudaIpcError("NOT_FOUND", `Cannot open "${name}": ${found}`);
    }
    this.#waiting.add({ session: session.id, request });
  }

  // WHY caught here: a grant may happen on somebody else's publish, who must not get this reader's error.
  #tryGrant(session: Session, request: RequestOf<"open">, object: SharedObject<Fd>): void {
    try {
      this.#grant(session, request, object);
    } catch (error) {
      this.refuse(session.id, request.id, error);
    }
  }

  #grant(session: Session, request: RequestOf<"open">, object: SharedObject<Fd>): void {
    checkRoom(session, `open "${object.name}"`);
    checkAccess(object, request.access);
    const readOnly = request.access === "read" && object.descriptor.mechanism === "memfd";
    const twin = readOnly ? this.#ports.reopenReadOnly(object.memory) : undefined;
    const lease = this.#objects.lease(object, session.id, request.access);
    session.leases.add(lease.id);
    try {
      const fds = [twin ?? object.memory, ...(object.index === undefined ? [] : [object.index])];
      const { id, descriptor } = object;
      const result: ResultOf<"open"> = { object: id, lease: lease.id, descriptor };
      this.#answer(session.id, request, result, fds);
    } finally {
      if (twin !== undefined) this.#ports.closeFd(twin);
    }
  }

  #cancel(session: Session, request: RequestOf<"cancel">): ResultOf<"cancel"> {
    const waiting: WaitingOpen | undefined = this.#waiting.take(session.id, request.request);
    if (waiting !== undefined) {
      const error = new CudaIpcError("ABORTED", `Cannot open "${waiting.request.name}": the wait was cancelled`);
      this.refuse(session.id, request.request, error);
    }
    return {};
  }

  #release(session: Session, request: RequestOf<"release">): ResultOf<"release"> {
    const lease = this.#objects.findLease(request.lease);
    if (lease === undefined || lease.session !== session.id) {
      throw new CudaIpcError("NOT_FOUND", `Cannot release lease ${request.lease}: this connection does not hold it`);
    }
    session.leases.delete(lease.id);
    this.#objects.release(lease);
    return {};
  }

  #remove(request: RequestOf<"remove">): ResultOf<"remove"> {
    this.#objects.remove(this.#named(request.name, "remove"));
    return {};
  }

  #list(request: RequestOf<"list">): ResultOf<"list"> {
    return listPage(this.#objects.namedAfter(request.after));
  }

  #inspect(request: RequestOf<"inspect">): ResultOf<"inspect"> {
    return inspection(this.#named(request.name, "inspect"), (session) => this.#sessions.get(session));
  }

  #status(): ResultOf<"status"> {
    const counts = { clients: this.#sessions.size, waitingOpens: this.#waiting.size };
    return hubStatus(this.identity, this.#objects, counts);
  }

  #stop(request: RequestOf<"stop">): ResultOf<"stop"> {
    const others = this.#sessions.size - 1;
    if (!request.force && (this.#objects.size > 0 || others > 0)) {
      throw new CudaIpcError(
        "HUB_IN_USE",
        `Cannot stop the hub: objects kept: ${this.#objects.size}, other clients: ${others}`,
      );
    }
    return {};
  }

  #named(name: string, verb: string): SharedObject<Fd> {
    const object = this.#objects.find(checkName(name));
    if (object !== undefined) return object;
    throw new CudaIpcError("NOT_FOUND", `Cannot ${verb} "${name}": no object of this name is shared`);
  }

  #answer(session: SessionId, request: Request, result: object, fds: readonly Fd[] = []): void {
    this.#ports.reply(session, { v: PROTOCOL_VERSION, id: request.id, ok: true, result }, fds);
  }
}

/** @throws LIMIT_EXCEEDED where the session holds as many leases as one may */
function checkRoom(session: Session, attempt: string): void {
  if (session.leases.size < limits.leasesPerClientMax) return;
  throw new CudaIpcError(
    "LIMIT_EXCEEDED",
    `Cannot ${attempt}: this client holds ${session.leases.size} leases, the limit (leasesPerClientMax)`,
  );
}
