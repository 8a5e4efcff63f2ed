/**
 * Connections, and the sessions behind them. A session holds leases and waiting opens, and lives as
 * long as its process. It outlives its connection, and another connection of the same process can
 * resume it. The session of a worker thread ends with the thread.
 *
 *   connected --hello--> attached --hang-up--> detached --process has ended--> gone
 *                           ^                     |
 *                           +------ resume -------+
 *
 * A session that was disconnected cannot be resumed: the attempt ends it, and begins another one.
 */
import { CudaIpcError } from "../../base/errors.js";
import type { ThreadIdentity } from "../../os/thread-identity.js";
import { type HubPolicy, isServed } from "../limits/policy.js";
import { Account } from "../limits/quota.js";
import type { Lease } from "../objects/shared-object.js";
import type { SessionThread } from "../restart/hub-records.js";
import type { EarlierConnection } from "../restart/inheritance.js";
import { mayRule } from "./access.js";
import type { ConnectionId, Peer, SessionId } from "./ports.js";

const ONE = { clients: 1 };

export interface Connection<Fd> {
  readonly id: ConnectionId;
  readonly peer: Peer;
  /** False after the hang-up. The server still watches the process. */
  attached: boolean;
  /**
   * Whether it counts as a client of its user. A connection that is expected to resume a session
   * does not, because that session counts already.
   */
  counted: boolean;
  session: Session<Fd> | undefined;
}

export class Session<Fd> {
  readonly id: SessionId;
  readonly peer: Peer;
  readonly account: Account;
  readonly leases = new Map<number, Lease<Fd>>();
  program: string;
  /** The latest connection. */
  connection: Connection<Fd>;
  /** Leases that the client has not restored yet after it resumed. */
  unrestored: Set<number> | undefined;
  /** The worker thread that the session ends with. Undefined if it ends with its process. */
  thread: SessionThread | undefined;
  /**
   * Whether it is in the journal. It is not until it holds something: most clients only look
   * around.
   */
  recorded = false;
  /** True while its leases end, a few at a time. Nobody can resume it any more. */
  ending = false;
  /** Somebody disconnected it. It gets no more answers, and its client cannot go on with it. */
  disconnected = false;

  constructor(id: SessionId, program: string, connection: Connection<Fd>, account: Account) {
    this.id = id;
    this.peer = connection.peer;
    this.program = program;
    this.connection = connection;
    this.account = account;
  }

  get attached(): boolean {
    return this.connection.attached;
  }
}

export class Sessions<Fd> {
  readonly hubAccount: Account;
  readonly #policy: HubPolicy;
  readonly #connections = new Map<ConnectionId, Connection<Fd>>();
  readonly #sessions = new Map<SessionId, Session<Fd>>();
  readonly #users = new Map<number, Account>();
  #attachedCount = 0;

  constructor(policy: HubPolicy) {
    this.#policy = policy;
    this.hubAccount = new Account("hub", "the hub", policy.limits.hub);
  }

  get connectionCount(): number {
    return this.#connections.size;
  }

  get attachedCount(): number {
    return this.#attachedCount;
  }

  /** Sessions whose connection hung up. */
  get detachedCount(): number {
    return this.#connections.size - this.#attachedCount;
  }

  all(): Iterable<Session<Fd>> {
    return this.#sessions.values();
  }

  /** The hub's user and root see all sessions, others those of their own user. */
  *visibleTo(peer: Peer): IterableIterator<Session<Fd>> {
    for (const session of this.#sessions.values()) if (this.#maySee(session, peer)) yield session;
  }

  /** The session with this number, if this user may see it and it is not ending. */
  findVisible(id: SessionId, peer: Peer): Session<Fd> | undefined {
    const session = this.#sessions.get(id);
    if (session === undefined || session.ending) return undefined;
    return this.#maySee(session, peer) ? session : undefined;
  }

  #maySee(session: Session<Fd>, peer: Peer): boolean {
    return session.peer.uid === peer.uid || mayRule(this.#policy.uid, peer);
  }

  /** The accounts of all users that the hub ever served, by uid. */
  accounts(): ReadonlyMap<number, Account> {
    return this.#users;
  }

  connections(): Iterable<Connection<Fd>> {
    return this.#connections.values();
  }

  find(connection: ConnectionId): Connection<Fd> | undefined {
    return this.#connections.get(connection);
  }

  /** The session with this number, if it belongs to this process and thread. */
  findToResume(
    id: SessionId | undefined,
    peer: Peer,
    thread: ThreadIdentity | undefined,
  ): Session<Fd> | undefined {
    const session = id === undefined ? undefined : this.#sessions.get(id);
    if (session === undefined || session.ending || !isSameProcess(session.peer, peer))
      return undefined;
    return isSameThread(session.thread, thread) ? session : undefined;
  }

  /** Never forgotten: sessions and objects hold on to it, and there are few users. */
  accountOf(uid: number): Account {
    const known = this.#users.get(uid);
    if (known !== undefined) return known;
    const own = this.#policy.userLimits.get(uid);
    const quota = own ?? this.#policy.limits.user;
    const source = own === undefined ? "limits.user" : `userLimits.${uid}`;
    const account = new Account("user", `user ${uid}`, quota, this.hubAccount, source);
    this.#users.set(uid, account);
    return account;
  }

  newClientAccount(uid: number): Account {
    return new Account("client", "this client", this.#policy.limits.client, this.accountOf(uid));
  }

  /** @throws UNTRUSTED_PEER, LIMIT_EXCEEDED */
  connect(id: ConnectionId, peer: Peer): void {
    if (!isServed(this.#policy, peer)) {
      throw new CudaIpcError(
        "UNTRUSTED_PEER",
        `Cannot serve user ${peer.uid}: this hub belongs to user ${this.#policy.uid} ` +
          `and is not configured to serve user ${peer.uid}`,
      );
    }
    const counted = this.#charge(peer);
    this.#connections.set(id, { id, peer, attached: true, counted, session: undefined });
    this.#attachedCount += 1;
  }

  /**
   * Charges for another client.
   * @returns false if the limit is reached, but the client may come back to a session that counts
   * @throws LIMIT_EXCEEDED
   */
  #charge(peer: Peer): boolean {
    try {
      this.accountOf(peer.uid).charge("serve another client", ONE);
      return true;
    } catch (error) {
      let expected = 0;
      for (const other of this.#connections.values()) {
        if (!isSameProcess(other.peer, peer)) continue;
        if (!other.attached) expected += 1;
        else if (!other.counted) expected -= 1;
      }
      if (expected <= 0) throw error;
      return false;
    }
  }

  /** @throws LIMIT_EXCEEDED if the connection was admitted to resume a session and does not */
  begin(id: SessionId, program: string, connection: Connection<Fd>): Session<Fd> {
    const { peer } = connection;
    if (!connection.counted) this.accountOf(peer.uid).charge("serve another client", ONE);
    connection.counted = true;
    const session = new Session(id, program, connection, this.newClientAccount(peer.uid));
    connection.session = session;
    this.#sessions.set(id, session);
    return session;
  }

  /** Adds a session of an earlier hub, as if its connection had hung up. */
  restore({ id, peer, session }: EarlierConnection): Session<Fd> {
    const connection: Connection<Fd> = {
      id,
      peer,
      attached: false,
      counted: true,
      session: undefined,
    };
    this.#connections.set(id, connection);
    this.accountOf(peer.uid).take(ONE);
    const restored = this.begin(session.id, session.program, connection);
    restored.thread = session.thread;
    return restored;
  }

  /** Gives the session to another connection. Returns the connection that it replaces. */
  resume(session: Session<Fd>, connection: Connection<Fd>): ConnectionId {
    const earlier = session.connection;
    this.detach(earlier);
    earlier.session = undefined;
    this.#connections.delete(earlier.id);
    if (connection.counted) this.accountOf(earlier.peer.uid).refund(ONE);
    connection.counted = true;
    connection.session = session;
    session.connection = connection;
    return earlier.id;
  }

  /** The connection has hung up. Its session still counts as a client. */
  detach(connection: Connection<Fd>): void {
    if (!connection.attached) return;
    connection.attached = false;
    this.#attachedCount -= 1;
  }

  /** Forgets a connection and its session, which holds nothing any more. */
  end(connection: Connection<Fd>): void {
    if (!this.#connections.delete(connection.id)) return;
    this.detach(connection);
    const { session, peer } = connection;
    if (session !== undefined) this.#sessions.delete(session.id);
    if (connection.counted) this.accountOf(peer.uid).refund(ONE);
  }

  clear(): void {
    this.#connections.clear();
    this.#sessions.clear();
    this.#users.clear();
  }
}

/** Compares users as well: another user must not get what the first one may have. */
function isSameProcess(one: Peer, other: Peer): boolean {
  if (one.uid !== other.uid) return false;
  if (one.pidfdInode !== null && other.pidfdInode !== null)
    return one.pidfdInode === other.pidfdInode;
  // Before Linux 6.9 the inodes of pidfds do not tell processes apart.
  const isSameNumber =
    one.pid > 0 && one.pid === other.pid && one.pidNamespace === other.pidNamespace;
  return isSameNumber && one.startTicks !== null && one.startTicks === other.startTicks;
}

/** Whether both are the same worker thread of a process, or both its main thread. */
function isSameThread(one: ThreadIdentity | undefined, other: ThreadIdentity | undefined): boolean {
  return one?.tid === other?.tid && one?.startTicks === other?.startTicks;
}
