/**
 * Opening by name: now, or later if the name is not ready and the client waits. Decides what a
 * channel's client may be: one writer, as many readers as there are seats, and any observers.
 */
import { CudaIpcError, hasCode } from "../../base/errors.js";
import {
  PROTOCOL_VERSION,
  type Reply,
  type RequestOf,
  type ResultOf,
} from "../../wire/messages.js";
import { checkName } from "../../wire/names.js";
import { checkAccess } from "../descriptors/check-descriptor.js";
import { givenDescriptors } from "../descriptors/given-descriptors.js";
import { checkLinkAccess, clientLeft, requestsOfNobody } from "../objects/link-access.js";
import type { ObjectTable } from "../objects/object-table.js";
import {
  freeSeats,
  type Grant,
  hasWriter,
  isChannel,
  isReady,
  type Lease,
  type SharedObject,
} from "../objects/shared-object.js";
import { checkMayOpen, mayOpen } from "./access.js";
import { errorReply } from "./error-reply.js";
import type { Held } from "./held.js";
import type { ConnectionId, HubPorts, Outgoing, Peer } from "./ports.js";
import type { Session } from "./sessions.js";
import type { WaitingOpens } from "./waiting-opens.js";

type Open = RequestOf<"open">;

export class OpenRequests<Fd> {
  readonly #ports: HubPorts<Fd>;
  readonly #objects: ObjectTable<Fd>;
  readonly #waiting: WaitingOpens<Fd>;
  readonly #hubUid: number;

  constructor(ports: HubPorts<Fd>, { hubUid, objects, waiting }: Held<Fd>) {
    this.#ports = ports;
    this.#hubUid = hubUid;
    this.#objects = objects;
    this.#waiting = waiting;
  }

  /** Sends the reply itself, now or later. */
  open(session: Session<Fd>, request: Open): void {
    const name = checkName(request.name);
    checkRole(request);
    const object = this.#objects.index.find(name);
    const found =
      object === undefined ? this.absence(name, session.peer) : notReady(object, session.peer);
    if (object !== undefined && found === undefined) this.#tryGrant(session, request, object);
    else if (request.wait) this.#wait(session, request);
    else throw new CudaIpcError("NOT_FOUND", `Cannot open "${name}": ${found}`);
  }

  cancel(session: Session<Fd>, request: RequestOf<"cancel">): ResultOf<"cancel"> {
    const waiting = this.#waiting.take(session.id, request.request);
    if (waiting === undefined) return {};
    const { name } = waiting.request;
    const error = new CudaIpcError("ABORTED", `Cannot open "${name}": the wait was cancelled`);
    this.#refuse(session, request.request, error);
    if (request.explain !== true) return {};
    const found = this.#whyNotYet(name, session.peer);
    return found === undefined ? {} : { found };
  }

  /**
   * Grants the opens that wait for this object, if it is ready. Each grant runs in a turn of the
   * user who waits: thousands may wait, and that must not cost the publisher's time.
   */
  grantWaiting(object: SharedObject<Fd> | undefined): void {
    if (object === undefined || !object.named || !isReady(object)) return;
    const { name } = object;
    for (const session of this.#waiting.sessionsFor(name)) {
      this.#ports.later(session.connection.id, session.peer.uid, () =>
        this.#grantFirst(session, name),
      );
    }
  }

  /** Says why there is no object of this name. */
  absence(name: string, peer: Peer): string {
    return this.#objects.lost.explain(name, peer) ?? "no object of this name is shared";
  }

  #wait(session: Session<Fd>, request: Open): void {
    const { name } = request;
    if (requestsOfNobody(name, (name) => this.#objects.index.find(name)) === name)
      throw clientLeft(name);
    this.#waiting.add({ session, request });
  }

  /** @returns whether the session may have more waiting opens of this name */
  #grantFirst(session: Session<Fd>, name: string): boolean {
    const object = this.#objects.index.find(name);
    if (object === undefined || !isReady(object)) return false;
    const request = this.#waiting.takeFirst(session, name);
    if (request === undefined) return false;
    this.#tryGrant(session, request, object);
    return true;
  }

  /** WHY caught here: a publisher may have caused the grant, and must not get a reader's error. */
  #tryGrant(session: Session<Fd>, request: Open, object: SharedObject<Fd>): void {
    try {
      this.#grant(session, request, object);
    } catch (error) {
      this.#refuse(session, request.id, error);
    }
  }

  #grant(session: Session<Fd>, request: Open, object: SharedObject<Fd>): void {
    checkMayOpen(object, session.peer, request.access);
    checkLinkAccess(object, request.role, session.peer, this.#hubUid);
    const grant = grantFor(object, request);
    checkAccess(object, request.access, request.role);
    const { uid } = object.owner;
    const needsWords = grant.role === "reader" || grant.role === "writer";
    if (needsWords) this.#ports.checkWritten(`open "${object.name}"`, uid);
    const given = givenDescriptors(object, grant, this.#ports);
    try {
      const lease = this.#objects.lease(object, session, grant);
      const result: ResultOf<"open"> = {
        object: object.id,
        lease: lease.id,
        descriptor: object.descriptor,
      };
      if (lease.seat !== undefined) result.place = lease.seat;
      const reply: Reply = { v: PROTOCOL_VERSION, id: request.id, ok: true, result };
      const connection = session.connection.id;
      // A reader must find its seat begun, and a writer the end of the writer before it.
      const isLate =
        needsWords &&
        this.#ports.whenWritten(uid, (failure) =>
          this.#grantLate(lease, connection, reply, failure),
        );
      if (isLate) return;
      this.#ports.reply(connection, reply, given.fds, () => this.#grantedAgain(lease, reply));
    } finally {
      given.close();
    }
  }

  /** @param connection the one of the request. Another one of the client ends this lease. */
  #grantLate(
    lease: Lease<Fd>,
    connection: ConnectionId,
    reply: Reply,
    failure: CudaIpcError | undefined,
  ): void {
    const again = () => this.#grantedAgain(lease, reply);
    try {
      if (lease.session.isOver) return;
      if (failure !== undefined && lease.seat !== undefined) throw failure;
      const granted = again();
      try {
        this.#ports.reply(connection, granted.reply, granted.fds, again);
      } finally {
        granted.close();
      }
    } catch (error) {
      this.#objects.release(lease);
      this.#ports.reply(connection, errorReply(reply.id, error), []);
    }
  }

  /**
   * Makes the reply to a granted open anew, if it could not be sent at once. The hub keeps no
   * descriptors for clients that do not read.
   * @throws TOO_MANY_FDS
   */
  #grantedAgain(lease: Lease<Fd>, reply: Reply): Outgoing<Fd> {
    const { object, session } = lease;
    const failed = (error: unknown) => ({
      reply: errorReply(reply.id, error),
      fds: [],
      close: () => {},
    });
    if (object.memory === undefined || session.leases.get(lease.id) !== lease) {
      const found = "the lease had ended before the answer was read";
      return failed(new CudaIpcError("NOT_FOUND", `Cannot open "${object.name}": ${found}`));
    }
    try {
      return { reply, ...givenDescriptors(object, lease, this.#ports) };
    } catch (error) {
      if (hasCode(error, "TOO_MANY_FDS")) throw error;
      this.#objects.release(lease);
      return failed(error);
    }
  }

  /** Says why a wait for this name has not ended. Undefined if it could be opened now. */
  #whyNotYet(name: string, peer: Peer): string | undefined {
    const object = this.#objects.index.find(name);
    if (object !== undefined) return notReady(object, peer);
    return this.#objects.lost.explain(name, peer) ?? `no process has created "${name}"`;
  }

  #refuse(session: Session<Fd>, request: number, error: unknown): void {
    this.#ports.reply(session.connection.id, errorReply(request, error), []);
  }
}

/** Says why an object cannot be opened yet. Undefined if it can. */
function notReady<Fd>(object: SharedObject<Fd>, peer: Peer): string | undefined {
  if (isReady(object)) return undefined;
  if (!object.published) return notPublished(object, peer);
  return (
    "its memory went with an earlier hub, " + "and no process that holds it has brought it back yet"
  );
}

function notPublished<Fd>(object: SharedObject<Fd>, peer: Peer): string {
  const creator = object.leases.owner?.session;
  // Users who may not open the object must not learn which program another user runs.
  if (creator === undefined || !mayOpen(object, peer, "read")) return "it is not published yet";
  const { program } = creator;
  return `process ${creator.peer.pid} (${program}) created it and has not published it yet`;
}

/**
 * Checks a request as far as it does not depend on the object.
 * @throws INVALID_MESSAGE
 */
function checkRole({ name, role, access }: Open): void {
  const wanted = role === undefined ? access : role === "writer" ? "read-write" : "read";
  if (access === wanted) return;
  const found = `the role "${role}" came with access "${access}", wanted "${wanted}"`;
  throw new CudaIpcError("INVALID_MESSAGE", `Cannot open "${name}": ${found}`);
}

/** @throws WRONG_KIND, READERS_FULL, IN_USE */
function grantFor<Fd>(object: SharedObject<Fd>, { role, access }: Open): Grant {
  const { name, descriptor } = object;
  if (!isChannel(object)) {
    if (role === undefined) return { kind: access, role, seat: undefined };
    if (role === "writer" && descriptor.content.kind === "timeline") {
      checkResumable(object);
      return { kind: access, role, seat: undefined };
    }
    const found = `it is of kind ${descriptor.content.kind}`;
    throw new CudaIpcError("WRONG_KIND", `Cannot open "${name}" as a channel: ${found}`);
  }
  if (role === undefined) {
    throw new CudaIpcError(
      "WRONG_KIND",
      `Cannot open "${name}" without a role: it is a channel. ` +
        "Use openChannel (Python: open_channel).",
    );
  }
  if (role === "writer") checkNoWriter(object);
  return { kind: access, role, seat: role === "reader" ? freeSeat(object) : undefined };
}

/** @throws READ_ONLY if it is not made for several owners, IN_USE */
function checkResumable<Fd>(object: SharedObject<Fd>): void {
  if (!hasWriter(object)) {
    const found = 'only its owner signals it, because its whenOwnerGone is "end"';
    throw new CudaIpcError("READ_ONLY", `Cannot resume timeline "${object.name}": ${found}`);
  }
  checkNoWriter(object);
}

function checkNoWriter<Fd>(object: SharedObject<Fd>): void {
  const { writer } = object.leases;
  if (writer === undefined) return;
  const { pid } = writer.session.peer;
  throw new CudaIpcError(
    "IN_USE",
    `Cannot open "${object.name}" as its writer: process ${pid} is its writer`,
  );
}

function freeSeat<Fd>(object: SharedObject<Fd>): number {
  const [seat] = freeSeats(object);
  if (seat !== undefined) return seat;
  const { content } = object.descriptor;
  const seats = content.kind === "channel" ? content.readersMax : 0;
  throw new CudaIpcError(
    "READERS_FULL",
    `Cannot open "${object.name}": it has its maximum of ${seats} readers (readersMax)`,
  );
}
