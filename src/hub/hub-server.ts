/**
 * The hub on its socket: accepts clients, feeds what they say and how they end to the core, and carries out what the core asks for.
 * Holds file descriptors only; it never loads a CUDA library.
 */
import { randomUUID } from "node:crypto";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { packageVersion } from "../base/version.js";
import { prepareBellSignals } from "../os/bell-signal.js";
import { openFilesMax } from "../os/open-files-max.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ownUid } from "../os/runtime-folder.js";
import { ClientConnections, describeError } from "./client-connections.js";
import { DescriptorGate } from "./descriptor-gate.js";
import { Entrance } from "./entrance.js";
import type { FileWords } from "./file-words.js";
import { HubCore } from "./hub-core.js";
import { HubFiles } from "./hub-files.js";
import type { HubService } from "./hub-service.js";
import { type Acquired, acquireAll, firstId, type HubServerOptions, listenAnew } from "./hub-start.js";
import type { Inheritance } from "./inheritance.js";
import { contentsOf } from "./inheritance-after-crash.js";
import type { Journal } from "./journal.js";
import { LimitedLog } from "./limited-log.js";
import { defaultQuotasOf, privatePolicy } from "./policy.js";
import type { ConnectionId, HubPorts, SessionId } from "./ports.js";
import { LISTENER, LOCK, objectKey, parseStoredName, type StoredKey, sessionKey } from "./stored-names.js";
import { systemPorts } from "./system-ports.js";

export class HubServer {
  readonly socketPath: string;
  /** Settled once the hub has ended here, whoever ended it. */
  readonly ended: Promise<void>;
  /** Whether it ended for another hub to go on. */
  hasLeft = false;
  readonly #core: HubCore<OwnedFd>;
  readonly #gate: DescriptorGate;
  readonly #connections: ClientConnections;
  readonly #files: HubFiles;
  readonly #entrance: Entrance;
  readonly #journal: Journal;
  readonly #words: FileWords;
  readonly #service: HubService | undefined;
  readonly #idleMs: number;
  readonly #limitedLog: LimitedLog;
  readonly #log: (line: string) => void;
  #open = true;
  /** Publications that are not answered yet. */
  readonly #waitingForKeeper = new Map<StoredKey, NodeJS.Timeout>();
  #idleTimer: NodeJS.Timeout | undefined;
  #settleEnded: () => void = () => {};

  private constructor(options: HubServerOptions, acquired: Acquired) {
    const { socketPath } = acquired;
    this.socketPath = socketPath;
    this.#journal = acquired.journal;
    this.#words = acquired.words;
    this.#service = options.service;
    this.#idleMs = options.idleMs ?? defaults.hubIdleMs;
    this.#limitedLog = new LimitedLog(options.log ?? (() => {}));
    this.#log = this.#limitedLog.log;
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve;
    });
    const idleMs = Number.isFinite(this.#idleMs) ? this.#idleMs : null;
    const identity = { version: packageVersion(), instance: randomUUID(), pid: process.pid, startedAtMs: Date.now() };
    const policy = options.policy ?? privatePolicy(ownUid(), defaultQuotasOf(openFilesMax()));
    this.#gate = new DescriptorGate(this.#log);
    this.#connections = new ClientConnections(this.#gate, this.#log, (change) => {
      if (change === "admitted") clearTimeout(this.#idleTimer);
      else this.#scheduleIdleEnd();
    });
    this.#core = new HubCore({ ...identity, socket: socketPath, idleMs }, policy, this.#ports(), firstId());
    this.#connections.serve(this.#core);
    this.#journal.keepShort(() => this.#core.records());
    this.#entrance = new Entrance(acquired.listener, this.#connections.newClients, this.#log);
    const { lock, journal } = acquired;
    this.#files = new HubFiles({
      socketPath,
      lock,
      journal,
      ownsSocket: this.#service?.ownsSocket !== false,
      listen: () => listenAnew(socketPath, options),
      isPassed: acquired.isPassed,
      onListener: (listener) => {
        this.#entrance.move(listener);
        this.#service?.store(LISTENER, [listener.fd]);
      },
      onLock: (lock) => this.#service?.store(LOCK, [lock]),
      log: this.#log,
    });
  }

  /**
   * Listens, after taking the lock beside the socket. What a hub left that died is replaced: its socket file, and its journal,
   * from which names and leases are as before.
   * @throws HUB_RUNNING, HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, SOCKET_PATH_TOO_LONG
   */
  static start(options: HubServerOptions = {}): HubServer {
    return acquireIn((scope) => {
      const acquired = acquireAll(scope, options);
      const hub = new HubServer(options, acquired);
      scope.defer(() => hub.#end([]));
      hub.#serve(acquired.inheritance);
      return hub;
    });
  }

  /** Goes on with what an earlier hub left, and lets clients in. */
  #serve(inheritance: Inheritance<OwnedFd>): void {
    const { state, connections } = inheritance;
    this.#core.inherit(inheritance);
    for (const connection of connections) {
      const { id, session } = connection;
      if (!this.#core.hasConnection(id)) continue;
      this.#connections.watch(id, connection, this.#service?.takeProcess(session.id));
      this.#storeProcess(session.id, id);
    }
    const { objectCount } = this.#core;
    if (state.objects.size > 0) this.#log(`an earlier hub left ${contentsOf(state)}; kept: ${objectCount}`);
    // WHY before the first client: what is shared from here on outlives this process.
    const { lock } = this.#files;
    this.#service?.begin(this.socketPath, { lock, listener: this.#entrance.listener }, (key) => this.#onSettled(key));
    prepareBellSignals();
    this.#gate.start();
    this.#entrance.open();
    this.#files.watch();
    const status = () => `${this.#core.objectCount} objects of ${this.#core.connectionCount} clients`;
    this.#service?.ready(status);
    this.#scheduleIdleEnd();
  }

  /** Ends the hub for good: names and leases are gone, what clients have mapped stays theirs. */
  stop(): void {
    if (!this.#open) return;
    this.#service?.stopping();
    this.#end([
      // WHY before the lock: the next hub may bind as soon as it has the lock.
      () => this.#files.removeSocket(),
      () => this.#entrance.close(),
      () => this.#connections.sayFarewell(),
      () => this.#journal.remove(),
      () => this.#files.unlock(),
    ]);
  }

  /**
   * Ends this process's part in it: the next hub finds the journal, and what a service manager or keeper has. Clients come back to it by
   * themselves.
   */
  leave(): void {
    if (!this.#open) return;
    this.hasLeft = true;
    this.#end([() => this.#journal.settle()]);
  }

  #end(first: readonly (() => void)[]): void {
    if (!this.#open) return;
    this.#open = false;
    this.#stopTimers();
    try {
      releaseAll([
        () => this.#files.stopWatching(),
        ...first,
        // WHY not earlier: asking for the releases already lets go of the connections, and what comes first may speak to them.
        () => releaseAll(this.#connections.releases()),
        () => this.#gate.close(),
        () => this.#core.close(),
        () => this.#words.close(),
        () => this.#service?.close(),
        () => this.#entrance.close(),
        () => this.#journal.close(),
        () => this.#files.close(),
        () => this.#limitedLog.flush(),
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
      ...systemPorts(this.#words, this.#log),
      reply: (connection, reply, fds, again) => connections.reply(connection, reply, fds, again),
      hangUp: (connection) => connections.hangUp(connection),
      forget: (connection) => connections.forget(connection),
      watchThread: (connection, thread) => connections.watchThread(connection, thread),
      later: (connection, uid, step) => connections.later(connection, uid, step),
      pause: (connection, milliseconds) => connections.pause(connection, milliseconds),
      stop: () => setImmediate(() => this.#byItself(() => this.stop())),
      restart: () => this.#restart(),
      troubles: () => this.#files.troubles,
      record: (records) => this.#journal.append(records),
      memoryArrived: (object, fds) => this.#service?.store(objectKey(object), fds),
      memoryGone: (object) => this.#service?.remove(objectKey(object)),
      holderArrived: (session, connection) => this.#storeProcess(session, connection),
      holderGone: (session) => this.#service?.remove(sessionKey(session)),
      isKept: (object) => this.#isKept(object),
      keeper: () => this.#service?.keeper ?? null,
      objectLost: (words) => this.#log(`lost ${words}: hub and keeper ended together`),
    };
  }

  #restart(): void {
    if (this.#service?.restarts !== true) {
      throw new CudaIpcError("NO_KEEPER", "Cannot restart the hub: no keeper or service manager would start the next");
    }
    setImmediate(() => this.#byItself(() => this.leave()));
  }

  /** Has the process of a session that holds something kept, by which the next hub knows it. */
  #storeProcess(session: SessionId, connection: ConnectionId): void {
    const pidfd = this.#connections.pidfdOf(connection);
    if (pidfd !== undefined) this.#service?.store(sessionKey(session), [pidfd]);
  }

  /** If it is not, its publisher is told when it is, or after a while. */
  #isKept(object: number): boolean {
    const key = objectKey(object);
    if (this.#service?.isKept(key) ?? true) return true;
    clearTimeout(this.#waitingForKeeper.get(key));
    const timer = setTimeout(() => {
      this.#log(`object ${object} is published, and not kept for the next hub yet: its keeper takes too long`);
      this.#onSettled(key);
    }, defaults.keptWaitMs);
    this.#waitingForKeeper.set(key, timer);
    return false;
  }

  #onSettled(key: StoredKey): void {
    if (!this.#waitingForKeeper.has(key)) return;
    clearTimeout(this.#waitingForKeeper.get(key));
    this.#waitingForKeeper.delete(key);
    const name = parseStoredName(key);
    if (name !== undefined) this.#core.kept(name.id);
  }

  #stopTimers(): void {
    for (const timer of this.#waitingForKeeper.values()) clearTimeout(timer);
    clearTimeout(this.#idleTimer);
  }

  #scheduleIdleEnd(): void {
    clearTimeout(this.#idleTimer);
    const isIdle = this.#core.connectionCount === 0 && this.#core.objectCount === 0;
    if (!this.#open || !isIdle || !Number.isFinite(this.#idleMs)) return;
    this.#idleTimer = setTimeout(() => {
      this.#log(`no clients and no objects for ${this.#idleMs} ms`);
      this.#byItself(() => this.stop());
    }, this.#idleMs);
  }
}
