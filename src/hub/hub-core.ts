/**
 * What the hub does with each message and each death: a state machine without sockets, clock or processes of its own.
 * Requests and ends of connections and processes go in; replies, hang-ups, records and closed descriptors come out through HubPorts.
 */
import { CudaIpcError } from "../base/errors.js";
import { decodeRequest, idOf } from "../wire/codec.js";
import { PROTOCOL_VERSION, type Request, type RequestOf, type ResultOf } from "../wire/messages.js";
import { checkMayRule, mayRule } from "./access.js";
import { liveRecords, stateOf } from "./as-records.js";
import { Attachments, checkFdCount } from "./attachments.js";
import { GivingBack } from "./giving-back.js";
import type { HubState, StoredRecord } from "./hub-records.js";
import { hubStatus } from "./hub-report.js";
import type { Inheritance } from "./inheritance.js";
import { ObjectRequests } from "./object-requests.js";
import { ObjectTable } from "./object-table.js";
import { PendingPublishes } from "./pending-publishes.js";
import type { HubPolicy } from "./policy.js";
import type { ConnectionId, HubIdentity, HubPorts, Peer, SessionId } from "./ports.js";
import { Account } from "./quota.js";
import { refusal } from "./refusal.js";
import { type Connection, type Session, Sessions } from "./sessions.js";
import { WaitingOpens } from "./waiting-opens.js";

/** These give something back, or say what is held, which is lost else: taken from whoever sends too many messages, too. */
const NEVER_REFUSED: ReadonlySet<Request["op"]> = new Set(["release", "cancel", "bye", "restore", "restored"]);

export class HubCore<Fd> {
  readonly identity: HubIdentity;
  readonly #ports: HubPorts<Fd>;
  readonly #policy: HubPolicy;
  readonly #sessions: Sessions<Fd>;
  readonly #objects: ObjectTable<Fd>;
  readonly #waiting = new WaitingOpens<Fd>();
  readonly #requests: ObjectRequests<Fd>;
  readonly #givingBack: GivingBack<Fd>;
  readonly #publishes = new PendingPublishes();
  #lastId: number;

  /** @param lastId no number up to this one is given to a session, an object or a lease */
  constructor(identity: HubIdentity, policy: HubPolicy, ports: HubPorts<Fd>, lastId: number) {
    this.identity = identity;
    this.#policy = policy;
    this.#ports = ports;
    this.#lastId = lastId;
    this.#sessions = new Sessions(policy);
    this.#objects = new ObjectTable(ports, () => this.#nextId());
    this.#requests = new ObjectRequests(ports, this.#objects, this.#waiting);
    const held = { sessions: this.#sessions, objects: this.#objects, waiting: this.#waiting };
    this.#givingBack = new GivingBack(ports, held);
  }

  get connectionCount(): number {
    return this.#sessions.connectionCount;
  }

  get objectCount(): number {
    return this.#objects.size;
  }

  hasConnection(id: ConnectionId): boolean {
    return this.#sessions.find(id) !== undefined;
  }

  /** What the next hub must know, but for the descriptors. */
  state(): HubState {
    return stateOf(this.#sessions.all(), this.#objects.objects(), this.#lastId);
  }

  /** The same as records, made while they are read, during which everything may change. */
  records(): IterableIterator<StoredRecord> {
    return liveRecords(this.#sessions.all(), this.#objects.objects(), this.#objects.leases(), this.#lastId);
  }

  /** Goes on with what an earlier hub knew. Before anything else. */
  inherit({ state, connections, memory }: Inheritance<Fd>): void {
    this.#lastId = Math.max(this.#lastId, state.lastId);
    const sessions = new Map<SessionId, Session<Fd>>();
    for (const earlier of connections) {
      const session = this.#sessions.restore(earlier);
      session.recorded = true;
      sessions.set(session.id, session);
    }
    for (const { record, published, named } of state.objects.values()) {
      const account = this.#sessions.accountOf(record.owner.uid);
      this.#objects.restore(record, { published, named, account, memory: memory.get(record.id) });
    }
    for (const lease of state.leases.values()) {
      const [object, session] = [this.#objects.get(lease.object), sessions.get(lease.session)];
      if (object !== undefined && session !== undefined) this.#objects.restoreLease(lease, object, session);
    }
    for (const [id, { fds }] of memory) {
      // WHY: it is the core's, and its object has ended meanwhile.
      if (this.#objects.get(id) === undefined) for (const fd of fds) this.#ports.closeFd(fd);
    }
    this.#objects.settle();
    for (const { id } of connections) {
      const connection = this.#sessions.find(id);
      if (connection !== undefined) this.#givingBack.endIfEmpty(connection);
    }
    this.#objects.settleChannels();
  }

  /** What is on its way to a client of this user is charged to. */
  accountOfReplies(uid: number): Account {
    return new Account("client", "this client", this.#policy.limits.client, this.#sessions.accountOf(uid));
  }

  /** @throws UNTRUSTED_PEER, LIMIT_EXCEEDED */
  connected(id: ConnectionId, peer: Peer): void {
    this.#sessions.connect(id, peer);
  }

  /** Nobody reads replies any more. What the session holds stays until its process has ended; one that holds nothing ends now. */
  hungUp(id: ConnectionId): void {
    const connection = this.#sessions.find(id);
    if (connection === undefined) return;
    this.#sessions.detach(connection);
    if (connection.session !== undefined) this.#waiting.dropSession(connection.session.id);
    this.#givingBack.endIfEmpty(connection);
  }

  /** The process of this connection, or the thread of its session, has ended: everything that it holds is given back. */
  processEnded(id: ConnectionId): void {
    const connection = this.#sessions.find(id);
    if (connection !== undefined) this.#givingBack.end(connection);
  }

  /** Handles one packet; the descriptors are the core's from here on. A packet that is no request ends its connection. */
  packet(id: ConnectionId, bytes: Uint8Array, fds: readonly Fd[]): void {
    const attached = new Attachments(fds);
    try {
      const connection = this.#sessions.find(id);
      if (connection?.attached && !connection.session?.ending) this.#handle(connection, decodeRequest(bytes), attached);
    } catch (error) {
      this.refuse(id, idOf(bytes), error);
      this.#ports.hangUp(id);
    } finally {
      for (const fd of fds) if (!attached.kept.has(fd)) this.#ports.closeFd(fd);
    }
  }

  /**
   * A packet that arrived without all of its descriptors or bytes. Lost descriptors are the hub's own shortage and answered as
   * an error; a packet over the limit breaks the protocol and ends its connection.
   */
  damagedPacket(id: ConnectionId, bytes: Uint8Array, damage: CudaIpcError): void {
    this.refuse(id, idOf(bytes), damage);
    if (damage.code === "MESSAGE_TOO_LARGE") this.#ports.hangUp(id);
  }

  /** The next hub would have this object, or its publisher is not to wait for that any longer. */
  kept(object: number): void {
    for (const { connection, request } of this.#publishes.take(object)) {
      if (this.#sessions.find(connection)?.attached) this.#answer(connection, request, {});
    }
  }

  /** Answers a request with an error. */
  refuse(connection: ConnectionId, request: number, error: unknown): void {
    this.#ports.reply(connection, refusal(request, error), []);
  }

  /** Ends all objects. */
  close(): void {
    this.#objects.clear();
    this.#waiting.clear();
    this.#publishes.clear();
    this.#sessions.clear();
  }

  #nextId(): number {
    this.#lastId += 1;
    return this.#lastId;
  }

  #handle(connection: Connection<Fd>, request: Request, attached: Attachments<Fd>): void {
    if (connection.session === undefined && request.op !== "hello") {
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot take "${request.op}": the first message is "hello"`);
    }
    try {
      this.#checkRate(connection, request);
      checkFdCount(request, attached.fds.length);
      const result = this.#dispatch(connection, request, attached);
      if (request.op === "publish" && !this.#ports.isKept(request.object)) {
        this.#publishes.add(request.object, { connection: connection.id, request: request.id });
      } else if (result !== undefined) this.#answer(connection.id, request.id, result);
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
    // WHY: refused messages cost the hub as much as others. The connection waits until it may send again.
    this.#ports.pause(connection.id, Math.ceil(waitMs));
    if (NEVER_REFUSED.has(op)) return;
    const rate = exceeded.quota.messagesPerSecond;
    throw new CudaIpcError(
      "LIMIT_EXCEEDED",
      `Cannot ${op}: ${exceeded.label} sends more than its limit of ${rate} messages a second (${exceeded.source}.messagesPerSecond)`,
    );
  }

  /** What a request brings about once its answer is on the way. */
  #afterAnswer(request: Request): void {
    if (request.op === "publish") this.#requests.grantWaiting(this.#objects.get(request.object));
    if (request.op === "stop") this.#ports.stop();
  }

  /** The result to answer with; undefined for what is answered when it is done. */
  #dispatch(connection: Connection<Fd>, request: Request, attached: Attachments<Fd>): object | undefined {
    if (request.op === "hello") return this.#hello(connection, request);
    const session = connection.session as Session<Fd>;
    const { peer } = connection;
    switch (request.op) {
      case "create":
        return this.#requests.create(session, request, attached);
      case "publish":
        return this.#requests.publish(session, request);
      case "open":
        this.#requests.open(session, request);
        return undefined;
      case "cancel":
        return this.#requests.cancel(session, request);
      case "release":
        return this.#requests.release(session, request);
      case "restore":
        return this.#requests.restore(session, request, attached);
      case "restored":
        this.#givingBack.endUnrestored(session, () => this.#answer(connection.id, request.id, {}));
        return undefined;
      case "remove":
        return this.#requests.remove(session, request);
      case "list":
        return this.#requests.list(session, request);
      case "inspect":
        return this.#requests.inspect(session, request);
      case "status":
        return this.#status(session);
      case "stop":
        return this.#stop(peer, request);
      case "restart":
        checkMayRule(this.#policy.uid, peer, "restart");
        this.#ports.restart();
        return {};
      case "bye":
        this.#givingBack.endSession(session, () => {
          this.#answer(connection.id, request.id, {});
          this.#ports.hangUp(connection.id);
        });
        return undefined;
    }
  }

  #hello(connection: Connection<Fd>, request: RequestOf<"hello">): ResultOf<"hello"> {
    if (connection.session !== undefined) {
      throw new CudaIpcError("INVALID_MESSAGE", `Cannot take "hello": this connection has said it already`);
    }
    const { client, resume, thread } = request;
    const earlier = this.#sessions.findToResume(resume?.session, connection.peer, thread);
    const session = earlier ?? this.#sessions.begin(this.#nextId(), client.program, connection);
    if (earlier !== undefined) this.#resume(earlier, connection);
    if (thread) session.thread = { ...thread, isSeen: this.#ports.watchThread(connection.id, thread) };
    const { version, instance, pid } = this.identity;
    return { version, instance, pid, session: session.id, resumed: earlier !== undefined };
  }

  #resume(session: Session<Fd>, connection: Connection<Fd>): void {
    this.#waiting.dropSession(session.id);
    const earlier = this.#sessions.resume(session, connection);
    if (session.recorded) this.#ports.holderArrived(session.id, connection.id);
    session.unrestored = new Set(session.leases.keys());
    this.#ports.forget(earlier);
  }

  #status({ peer, account: asking }: Session<Fd>): ResultOf<"status"> {
    const { attachedCount: clients, detachedCount: detached, hubAccount } = this.#sessions;
    const bytes = { hostBytes: hubAccount.used("hostBytes"), deviceBytes: hubAccount.used("deviceBytes") };
    const counts = { clients, detached, waitingOpens: this.#waiting.size, ...bytes };
    const own = [[peer.uid, this.#sessions.accountOf(peer.uid)]] as const;
    const users = mayRule(this.#policy.uid, peer) ? this.#sessions.accounts() : own;
    const lost = this.#objects.lost.list(peer);
    const told = { ...counts, lost, keeper: this.#ports.keeper(), troubles: [...this.#ports.troubles()] };
    return hubStatus(this.identity, this.#objects, told, { asking, users });
  }

  #stop(peer: Peer, request: RequestOf<"stop">): ResultOf<"stop"> {
    checkMayRule(this.#policy.uid, peer, "stop");
    const others = this.#sessions.attachedCount - 1;
    if (!request.force && (this.#objects.size > 0 || others > 0)) {
      throw new CudaIpcError(
        "HUB_IN_USE",
        `Cannot stop the hub: objects kept: ${this.#objects.size}, other clients: ${others}`,
      );
    }
    return {};
  }

  #answer(connection: ConnectionId, request: number, result: object): void {
    this.#ports.reply(connection, { v: PROTOCOL_VERSION, id: request, ok: true, result }, []);
  }
}
