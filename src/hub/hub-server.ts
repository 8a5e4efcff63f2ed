/**
 * The hub on its socket: accepts clients, feeds what they say and how they end to the core, and carries out what the core asks for.
 * Holds file descriptors only; it never loads a CUDA library.
 */
import { randomUUID } from "node:crypto";
import { CudaIpcError } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { packageVersion } from "../base/version.js";
import { FdWatch } from "../os/fd-watch.js";
import { openFilesMax } from "../os/open-files-max.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ownUid } from "../os/runtime-folder.js";
import type { SeqpacketListener } from "../os/seqpacket.js";
import { SocketFile } from "../os/socket-file.js";
import { closeHeld, type HeldConnection } from "./client-connection.js";
import { ClientConnections, describeError } from "./client-connections.js";
import type { HandedOver } from "./handed-over.js";
import { handOver } from "./handing-over.js";
import { HubCore } from "./hub-core.js";
import type { HubRecord } from "./hub-records.js";
import type { HubService } from "./hub-service.js";
import { type Acquired, acquireAlone, acquireFrom, firstId, type HubServerOptions } from "./hub-start.js";
import type { EarlierConnection } from "./inheritance.js";
import { contentsOf } from "./inheritance-after-crash.js";
import type { Journal } from "./journal.js";
import { defaultQuotasOf, privatePolicy } from "./policy.js";
import type { ConnectionId, HubPorts } from "./ports.js";
import { systemPorts } from "./system-ports.js";
import { checkFormat } from "./takeover-messages.js";

const ACCEPT_PAUSE_MS = 100;

export class HubServer {
  readonly socketPath: string;
  /** Settled once the hub has ended here, whoever ended it. */
  readonly ended: Promise<void>;
  readonly #core: HubCore<OwnedFd>;
  readonly #connections: ClientConnections;
  readonly #lock: OwnedFd;
  readonly #listener: SeqpacketListener;
  readonly #socketFile: SocketFile;
  readonly #journal: Journal;
  readonly #service: HubService | undefined;
  readonly #idleMs: number;
  readonly #handOverTimeoutMs: number;
  readonly #log: (line: string) => void;
  /** Connections of an earlier hub, until this one serves. */
  #inherited: readonly EarlierConnection[];
  #watch: FdWatch | undefined;
  /** Connections that nobody watches for the moment. */
  #held: ReadonlyMap<ConnectionId, HeldConnection>;
  /** Records of what was found before this hub serves; undefined from then on. */
  #early: HubRecord[] | undefined = [];
  #open = true;
  #handingOver = false;
  /** How to end once it is known whose the clients are. */
  #endWanted: "stop" | "leave" | undefined;
  #idleTimer: NodeJS.Timeout | undefined;
  #acceptTimer: NodeJS.Timeout | undefined;
  #compaction: NodeJS.Immediate | undefined;
  #settleEnded: () => void = () => {};

  private constructor(options: HubServerOptions, acquired: Acquired) {
    const { socketPath } = acquired;
    this.socketPath = socketPath;
    this.#lock = acquired.lock;
    this.#listener = acquired.listener;
    this.#journal = acquired.journal;
    this.#held = acquired.held;
    this.#inherited = acquired.inheritance.connections;
    this.#service = options.service;
    this.#socketFile = new SocketFile(socketPath);
    this.#idleMs = options.idleMs ?? defaults.hubIdleMs;
    this.#handOverTimeoutMs = options.handOverTimeoutMs ?? defaults.takeoverStepTimeoutMs;
    this.#log = options.log ?? (() => {});
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve;
    });
    const idleMs = Number.isFinite(this.#idleMs) ? this.#idleMs : null;
    const identity = { version: packageVersion(), instance: randomUUID(), pid: process.pid, startedAtMs: Date.now() };
    const policy = options.policy ?? privatePolicy(ownUid(), defaultQuotasOf(openFilesMax()));
    this.#connections = new ClientConnections(this.#log, () => this.#scheduleIdleEnd());
    this.#core = new HubCore({ ...identity, socket: socketPath, idleMs }, policy, this.#ports(), firstId());
    this.#connections.serve(this.#core);
  }

  /**
   * Listens, after taking the lock beside the socket. What a hub left that died is replaced: its socket file, and its journal,
   * from which names and leases are as before.
   * @throws HUB_RUNNING, HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, SOCKET_PATH_TOO_LONG
   */
  static start(options: HubServerOptions = {}): HubServer {
    return acquireIn((scope) => {
      const acquired = acquireAlone(scope, options);
      const hub = new HubServer(options, acquired);
      scope.defer(() => hub.abandon());
      hub.#core.inherit(acquired.inheritance);
      const { objects } = hub.serve();
      const { state } = acquired.inheritance;
      if (state.objects.size > 0) hub.#log(`an earlier hub left ${contentsOf(state)}; kept: ${objects}`);
      return hub;
    });
  }

  /** Goes on with everything that another hub handed over, but does nothing before `serve`. Takes it over, also where it throws. */
  static succeed(handedOver: HandedOver, options: HubServerOptions): HubServer {
    return acquireIn((scope) => {
      const acquired = acquireFrom(scope, handedOver, options);
      const hub = new HubServer(options, acquired);
      scope.defer(() => hub.abandon());
      hub.#core.inherit(acquired.inheritance);
      return hub;
    });
  }

  /** Begins to act on what was taken over; how much that is. */
  serve(): { readonly objects: number; readonly clients: number } {
    const early = this.#early ?? [];
    this.#early = undefined;
    if (early.length > 0) this.#record(early);
    this.#core.serving();
    this.#goOn();
    const inherited = this.#inherited;
    this.#inherited = [];
    for (const { id, peer } of inherited) {
      if (!this.#connections.has(id) && this.#core.hasConnection(id)) this.#connections.watch(id, peer);
    }
    this.#listener.listen();
    this.#watch = new FdWatch(this.#listener.fd, () => this.#acceptAll());
    const counts = () => ({ objects: this.#core.objectCount, clients: this.#core.connectionCount });
    this.#service?.ready(this.#listener, () => `${counts().objects} objects of ${counts().clients} clients`);
    this.#scheduleIdleEnd();
    return counts();
  }

  /** Ends the hub for good: names and leases are gone, what clients have mapped stays theirs. */
  stop(): void {
    // WHY: nobody knows at this moment whose the clients are; it ends as soon as they are this hub's again.
    if (this.#handingOver) this.#endWanted = "stop";
    else if (this.#open) {
      this.#service?.stopping();
      this.#end([
        // WHY before the lock: the next hub may bind as soon as it has the lock.
        () => (this.#service?.ownsSocket === false ? undefined : this.#socketFile.remove()),
        () => this.#listener.close(),
        () => this.#connections.sayFarewell(),
        () => this.#journal.remove(),
      ]);
    }
  }

  /**
   * Ends this process's part in it: the next hub finds the journal, and what a service manager keeps, and clients come back to it by
   * themselves.
   */
  leave(): void {
    if (this.#handingOver) this.#endWanted ??= "leave";
    else if (this.#open) {
      this.#service?.stopping();
      this.#end([]);
    }
  }

  /** Lets go of everything, as if this hub had never been. */
  abandon(): void {
    if (this.#open) this.#end([]);
  }

  #end(first: readonly (() => void)[]): void {
    this.#open = false;
    this.#stopTimers();
    const held = [...this.#held.values()];
    this.#held = new Map();
    try {
      releaseAll([
        () => this.#watch?.close(),
        ...first,
        // WHY not earlier: asking for the releases already lets go of the connections, and what comes first may speak to them.
        () => releaseAll(this.#connections.releases()),
        ...held.map((connection) => () => closeHeld(connection)),
        () => this.#core.close(),
        () => this.#service?.close(),
        () => this.#listener.close(),
        () => this.#journal.close(),
        () => this.#lock.close(),
      ]);
    } finally {
      this.#settleEnded();
    }
  }

  /** WHY nothing is thrown: the event loop called, and what could be released was. */
  #byItself(end: () => void): void {
    try {
      end();
    } catch (error) {
      this.#log(`cannot release all at the end: ${describeError(error)}`);
    }
  }

  #ports(): HubPorts<OwnedFd> {
    const connections = this.#connections;
    return {
      ...systemPorts(this.#log),
      reply: (connection, reply, fds) => connections.reply(connection, reply, fds),
      hangUp: (connection) => connections.hangUp(connection),
      forget: (connection) => connections.forget(connection),
      pause: (connection, milliseconds) => connections.pause(connection, milliseconds),
      stop: () => setImmediate(() => this.#byItself(() => this.stop())),
      handOver: (connection, format) => this.#beginHandOver(connection, format),
      record: (records) => this.#record(records),
      memoryArrived: (object, fds) => this.#service?.memoryArrived(object, fds),
      memoryGone: (object) => this.#service?.memoryGone(object),
    };
  }

  /** Watches the connections that nobody watched. */
  #goOn(): void {
    const held = [...this.#held];
    this.#held = new Map();
    const isKnown = ([id]: readonly [ConnectionId, HeldConnection]) => this.#core.hasConnection(id);
    this.#connections.goOn(new Map(held.filter(isKnown)));
    for (const entry of held) if (!isKnown(entry)) closeHeld(entry[1]);
  }

  #record(records: readonly HubRecord[]): void {
    if (this.#early === undefined) this.#journal.append(records);
    else this.#early.push(...records);
    if (this.#early !== undefined || !this.#journal.isLong || this.#compaction !== undefined) return;
    // WHY later: the change that this record is of has not taken effect yet.
    this.#compaction = setImmediate(() => {
      this.#compaction = undefined;
      this.#journal.compact(this.#core.state());
    });
  }

  /** @throws PROTOCOL_MISMATCH, HUB_IN_USE */
  #beginHandOver(connection: ConnectionId, format: number): void {
    checkFormat(format);
    if (this.#handingOver)
      throw new CudaIpcError("HUB_IN_USE", "Cannot hand over the hub: another process is getting it");
    this.#handingOver = true;
    setImmediate(() => void this.#handOver(connection));
  }

  /** From its first line to its last nothing of this hub changes: no message is read, no end noticed, nothing sent. */
  async #handOver(successor: ConnectionId): Promise<void> {
    if (!this.#open) return;
    this.#stopTimers();
    this.#watch?.pause();
    this.#held = this.#connections.takeOver();
    const asking = this.#held.get(successor);
    this.#held = new Map([...this.#held].filter(([id]) => id !== successor));
    try {
      if (asking?.socket === undefined || asking.queued.length > 0) {
        throw new CudaIpcError("PEER_GONE", "Cannot hand over the hub: the successor does not read");
      }
      const pid = asking.peer.pid;
      this.#log(`hands over to process ${pid}`);
      this.#journal.settle(this.#core.state());
      const inheritance = this.#core.inheritance();
      const estate = { listener: this.#listener, lock: this.#lock, inheritance, held: this.#held };
      await handOver(asking.socket, estate, { stepTimeoutMs: this.#handOverTimeoutMs, log: this.#log });
      this.#log(`handed over to process ${pid}`);
    } catch (error) {
      this.#keepAll(successor, asking, error);
      return;
    }
    this.#byItself(() => releaseAll([() => closeHeld(asking), () => this.#end([])]));
  }

  /** Goes on as before, after the successor did not take what it was to get. */
  #keepAll(successor: ConnectionId, asking: HeldConnection | undefined, error: unknown): void {
    this.#log(`not handed over, goes on: ${describeError(error)}`);
    this.#handingOver = false;
    this.#goOn();
    this.#watch?.resume();
    if (asking !== undefined) {
      closeHeld({ ...asking, pidfd: undefined });
      this.#connections.goOn(new Map([[successor, { ...asking, socket: undefined, queued: [] }]]));
      this.#connections.hungUp(successor, undefined);
      if (asking.pidfd === undefined) this.#core.processEnded(successor);
    }
    this.#scheduleIdleEnd();
    if (this.#endWanted !== undefined) this.#byItself(() => this[this.#endWanted ?? "stop"]());
  }

  #acceptAll(): void {
    try {
      for (let count = 0; count < limits.hubAcceptsPerTurn; count += 1) {
        const socket = this.#listener.tryAccept();
        if (socket === undefined) return;
        if (this.#connections.admit(socket)) clearTimeout(this.#idleTimer);
      }
    } catch (error) {
      this.#log(`cannot accept a client: ${describeError(error)}`);
      // WHY a pause: with the table of open files full, the listener stays readable and would spin.
      this.#watch?.pause();
      this.#acceptTimer = setTimeout(() => this.#watch?.resume(), ACCEPT_PAUSE_MS);
    }
  }

  #stopTimers(): void {
    clearTimeout(this.#idleTimer);
    clearTimeout(this.#acceptTimer);
    clearImmediate(this.#compaction);
    this.#compaction = undefined;
  }

  #scheduleIdleEnd(): void {
    clearTimeout(this.#idleTimer);
    const isIdle = this.#core.connectionCount === 0 && this.#core.objectCount === 0;
    if (!this.#open || this.#handingOver || !isIdle || !Number.isFinite(this.#idleMs)) return;
    this.#idleTimer = setTimeout(() => {
      this.#log(`no clients and no objects for ${this.#idleMs} ms`);
      this.#byItself(() => this.stop());
    }, this.#idleMs);
  }
}
