/**
 * The hub's reaction to each message and each death, as a state machine without sockets, clock or
 * processes. Requests, hang-ups and deaths go in. Replies, hang-ups, records and closed descriptors
 * come out through HubPorts. No port calls back into the core. When the core hangs up on a client,
 * the client's end comes in later, from the event loop, so no table changes while it is walked.
 */
import { CudaIpcError } from "../../base/errors.js";
import { decodeRequest, idOf } from "../../wire/codec.js";
import {
  PROTOCOL_VERSION,
  type Request,
  type RequestOf,
  type ResultOf,
} from "../../wire/messages.js";
import { Attachments, checkFdCount } from "../descriptors/attachments.js";
import type { HubPolicy } from "../limits/policy.js";
import type { Account } from "../limits/quota.js";
import type { ObjectTable } from "../objects/object-table.js";
import { liveRecords, stateOf } from "../restart/as-records.js";
import type { HubState, StoredRecord } from "../restart/hub-records.js";
import type { Inheritance } from "../restart/inheritance.js";
import { checkMayRule, mayRule } from "./access.js";
import { Disconnection } from "./disconnection.js";
import { errorReply } from "./error-reply.js";
import { clearHeld, dropWaits, type Held, nothingHeld } from "./held.js";
import { clientsPage, hubStatus } from "./hub-report.js";
import { inheritState } from "./inherit-state.js";
import { NEVER_REFUSED } from "./never-refused.js";
import { ObjectRequests } from "./object-requests.js";
import { OpenRequests } from "./open-requests.js";
import type { ConnectionId, HubIdentity, HubPorts, Peer } from "./ports.js";
import { SessionEnd } from "./session-end.js";
import type { Connection, Session, Sessions } from "./sessions.js";

export class HubCore<Fd> {
  readonly identity: HubIdentity;
  readonly #ports: HubPorts<Fd>;
  readonly #policy: HubPolicy;
  readonly #sessions: Sessions<Fd>;
  readonly #objects: ObjectTable<Fd>;
  readonly #held: Held<Fd>;
  readonly #opens: OpenRequests<Fd>;
  readonly #requests: ObjectRequests<Fd>;
  readonly #sessionEnd: SessionEnd<Fd>;
  readonly #disconnection: Disconnection<Fd>;
  #lastId: number;

  /** @param lastId sessions, objects and leases get larger numbers */
  constructor(identity: HubIdentity, policy: HubPolicy, ports: HubPorts<Fd>, lastId: number) {
    this.identity = identity;
    this.#policy = policy;
    this.#ports = ports;
    this.#lastId = lastId;
    this.#held = nothingHeld(policy, ports, () => this.#nextId());
    const { sessions, objects } = this.#held;
    this.#sessions = sessions;
    this.#objects = objects;
    this.#opens = new OpenRequests(ports, this.#held);
    this.#requests = new ObjectRequests(ports, this.#held, this.#opens);
    this.#sessionEnd = new SessionEnd(ports, this.#held);
    this.#disconnection = new Disconnection(ports, this.#sessions, this.#sessionEnd);
  }

  get connectionCount(): number {
    return this.#sessions.connectionCount;
  }

  get objectCount(): number {
    return this.#objects.index.size;
  }

  hasConnection(id: ConnectionId): boolean {
    return this.#sessions.find(id) !== undefined;
  }

  /** The state that the next hub needs, without descriptors. */
  state(): HubState {
    return stateOf(this.#sessions.all(), this.#objects.index.objects(), this.#lastId);
  }

  /** The same as records, read from the live tables, which may change meanwhile. */
  records(): IterableIterator<StoredRecord> {
    const { index } = this.#objects;
    return liveRecords(this.#sessions.all(), index.objects(), index.leases(), this.#lastId);
  }

  /** Goes on with the state of an earlier hub. Call it before anything else. */
  inherit(inheritance: Inheritance<Fd>): void {
    this.#lastId = Math.max(this.#lastId, inheritance.state.lastId);
    inheritState(inheritance, this.#held, this.#sessionEnd, this.#ports);
  }

  /** A new account for the unread replies of one client of this user. */
  accountOfReplies(uid: number): Account {
    return this.#sessions.newClientAccount(uid);
  }

  /** @throws UNTRUSTED_PEER, LIMIT_EXCEEDED */
  connected(id: ConnectionId, peer: Peer): void {
    this.#sessions.connect(id, peer);
  }

  /**
   * The client reads no more replies. Its session ends with its process, or now if it holds
   * nothing.
   */
  hungUp(id: ConnectionId): void {
    const connection = this.#sessions.find(id);
    if (connection === undefined) return;
    this.#sessions.detach(connection);
    if (connection.session !== undefined) dropWaits(connection.session, this.#held);
    this.#sessionEnd.endIfEmpty(connection);
  }

  /** Releases everything of a session whose process or worker thread has ended. */
  processEnded(id: ConnectionId): void {
    const connection = this.#sessions.find(id);
    if (connection !== undefined) this.#sessionEnd.end(connection);
  }

  /**
   * Handles one packet and takes over its descriptors. A packet that is not a request ends its
   * connection.
   */
  packet(id: ConnectionId, bytes: Uint8Array, fds: readonly Fd[]): void {
    const attached = new Attachments(fds);
    let number = 0;
    const onId = (found: number) => {
      number = found;
    };
    try {
      const connection = this.#sessions.find(id);
      if (connection?.attached && !connection.session?.isOver)
        this.#handle(connection, decodeRequest(bytes, onId), attached);
    } catch (error) {
      this.refuse(id, number, error);
      this.#ports.hangUp(id);
    } finally {
      for (const fd of fds) if (!attached.kept.has(fd)) this.#ports.closeFd(fd);
    }
  }

  /**
   * Handles a packet that lost descriptors or bytes. Lost descriptors are the hub's own shortage,
   * so the client gets an error. A packet over the size limit breaks the protocol and ends its
   * connection.
   */
  damagedPacket(id: ConnectionId, bytes: Uint8Array, damage: CudaIpcError): void {
    this.refuse(id, idOf(bytes), damage);
    if (damage.code === "MESSAGE_TOO_LARGE") this.#ports.hangUp(id);
  }

  /** The next hub would have this object, or its publisher has waited long enough. */
  kept(object: number): void {
    for (const { connection, request } of this.#requests.takePendingPublishes(object)) {
      if (this.#sessions.find(connection)?.attached) this.#answer(connection, request, {});
    }
  }

  /** Answers a request with an error. */
  refuse(connection: ConnectionId, request: number, error: unknown): void {
    this.#ports.reply(connection, errorReply(request, error), []);
  }

  /** Ends all objects. */
  close(): void {
    this.#requests.clear();
    clearHeld(this.#held);
  }

  #nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  #handle(connection: Connection<Fd>, request: Request, attached: Attachments<Fd>): void {
    if (connection.session === undefined && request.op !== "hello") {
      throw new CudaIpcError(
        "INVALID_MESSAGE",
        `Cannot take "${request.op}": the first message is "hello"`,
      );
    }
    try {
      this.#checkRate(connection, request);
      checkFdCount(request, attached.fds.length);
      const result = this.#dispatch(connection, request, attached);
      if (result !== undefined) this.#answer(connection.id, request.id, result);
    } catch (error) {
      this.refuse(connection.id, request.id, error);
      return;
    }
    this.#afterAnswer(request);
  }

  /** @throws LIMIT_EXCEEDED */
  #checkRate(connection: Connection<Fd>, { op }: Request): void {
    const account = connection.session?.account ?? this.#sessions.accountOf(connection.peer.uid);
    const { waitMs, exceeded } = account.countMessage(this.#ports.monotonicMs());
    if (exceeded === undefined) return;
    // Refusing a message costs the hub as much as handling it, so the hub stops reading as well.
    this.#ports.pause(connection.id, Math.ceil(waitMs));
    if (NEVER_REFUSED.has(op)) return;
    const rate = exceeded.quota.messagesPerSecond;
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot ${op}: ${exceeded.label} sends more than its limit of ${rate} messages a second ` +
        `(${exceeded.source}.messagesPerSecond)`,
    );
  }

  /** The effects of a request that follow its reply. */
  #afterAnswer(request: Request): void {
    if (request.op === "publish") this.#opens.grantWaiting(this.#objects.index.get(request.object));
    if (request.op === "stop") this.#ports.stop();
  }

  /** Returns the result, or undefined if the reply comes later. */
  #dispatch(
    connection: Connection<Fd>,
    request: Request,
    attached: Attachments<Fd>,
  ): object | undefined {
    if (request.op === "hello") return this.#hello(connection, request);
    const session = connection.session as Session<Fd>;
    const { peer } = connection;
    const answer = () => this.#answer(connection.id, request.id, {});
    switch (request.op) {
      case "create":
        return this.#requests.create(session, request, attached);
      case "publish":
        return this.#requests.publish(session, request);
      case "open":
        this.#opens.open(session, request);
        return undefined;
      case "cancel":
        return this.#opens.cancel(session, request);
      case "release":
        return this.#requests.release(session, request);
      case "drain":
        return this.#requests.drain(session, request);
      case "restore":
        return this.#requests.restore(session, request, attached);
      case "restored":
        this.#sessionEnd.endUnrestored(session, answer);
        return undefined;
      case "remove":
        return this.#requests.remove(session, request);
      case "list":
        return this.#requests.list(session, request);
      case "changes":
        return this.#requests.changes(session, request);
      case "clients":
        return clientsPage(this.#sessions.visibleTo(peer), request.after);
      case "inspect":
        return this.#requests.inspect(session, request);
      case "status":
        return hubStatus(this.identity, this.#held, this.#ports, {
          asking: session,
          seesAllUsers: mayRule(this.#policy.uid, peer),
        });
      case "stop":
        return this.#stop(peer, request);
      case "restart":
        checkMayRule(this.#policy.uid, peer, "restart");
        this.#ports.restart();
        return {};
      case "disconnect":
        return this.#disconnection.disconnect(session, request);
      case "bye":
        this.#sessionEnd.endSession(session, () => {
          answer();
          this.#ports.hangUp(connection.id);
        });
        return undefined;
    }
  }

  #hello(connection: Connection<Fd>, request: RequestOf<"hello">): ResultOf<"hello"> {
    if (connection.session !== undefined) {
      throw new CudaIpcError(
        "INVALID_MESSAGE",
        `Cannot take "hello": this connection has said it already`,
      );
    }
    const { client, resume, thread } = request;
    const found = this.#sessions.findToResume(resume?.session, connection.peer, thread);
    const earlier = found?.disconnected ? undefined : found;
    const session = earlier ?? this.#sessions.begin(this.#nextId(), client.program, connection);
    if (earlier !== undefined) this.#resume(earlier, connection);
    if (found?.disconnected) this.#disconnection.confirmed(found);
    if (thread)
      session.thread = { ...thread, isSeen: this.#ports.watchThread(connection.id, thread) };
    const { version, instance, pid } = this.identity;
    return { version, instance, pid, session: session.id, resumed: earlier !== undefined };
  }

  #resume(session: Session<Fd>, connection: Connection<Fd>): void {
    dropWaits(session, this.#held);
    const earlier = this.#sessions.resume(session, connection);
    if (session.recorded) this.#ports.holderArrived(session.id, connection.id);
    session.unrestored = new Set(session.leases.keys());
    this.#ports.forget(earlier);
  }

  #stop(peer: Peer, request: RequestOf<"stop">): ResultOf<"stop"> {
    checkMayRule(this.#policy.uid, peer, "stop");
    const others = this.#sessions.attachedCount - 1;
    if (!request.force && (this.objectCount > 0 || others > 0)) {
      throw new CudaIpcError(
        "HUB_IN_USE",
        `Cannot stop the hub: objects kept: ${this.objectCount}, other clients: ${others}`,
      );
    }
    return {};
  }

  #answer(connection: ConnectionId, request: number, result: object): void {
    this.#ports.reply(connection, { v: PROTOCOL_VERSION, id: request, ok: true, result }, []);
  }
}
