/**
 * The hub on its socket: accepts clients, passes their messages and deaths to the core, and carries
 * out the core's effects. Holds file descriptors only, and never loads a CUDA library.
 *
 *   serving --stop()--> stopped     names and leases are gone
 *      |
 *      +-----leave()--> left        the next hub goes on with them
 *
 * A hub that fails to start is closed like one that left, and `start` throws.
 */
import { randomUUID } from "node:crypto";
import { CudaIpcError } from "../../base/errors.js";
import { defaults } from "../../base/limits.js";
import { type Log, noLog } from "../../base/log-events.js";
import { packageVersion } from "../../base/own-package.js";
import { acquireIn, releaseAll } from "../../base/scope.js";
import { openFilesMax } from "../../os/open-file.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { ownUid } from "../../os/runtime-folder.js";
import { ClientConnections } from "../connections/client-connections.js";
import { Entrance } from "../connections/entrance.js";
import { HubCore } from "../core/hub-core.js";
import type { ConnectionId, HubIdentity, HubPorts, SessionId } from "../core/ports.js";
import { DescriptorGate } from "../gate/descriptor-gate.js";
import { codeOf, describeError, LimitedLog } from "../hub-log.js";
import { defaultQuotasOf, privatePolicy } from "../limits/policy.js";
import type { HubService } from "../restart/hub-service.js";
import { contentsOf, type Inheritance } from "../restart/inheritance.js";
import type { Journal } from "../restart/journal.js";
import { LISTENER, LOCK, objectKey, sessionKey } from "../restart/stored-names.js";
import { HubWords } from "../words/hub-words.js";
import { bellTroubles, prepareBells } from "./bell-trouble.js";
import { HubFiles } from "./hub-files.js";
import {
  type Acquired,
  acquireAll,
  checkFolder,
  firstId,
  type HubServerOptions,
  listenAnew,
  makeFolder,
} from "./hub-start.js";
import { logChanges } from "./log-changes.js";
import { systemPorts, wallClockMs } from "./system-ports.js";

type State = "serving" | "stopped" | "left";

export class HubServer {
  readonly socketPath: string;
  /** Resolves when this hub has ended, for whatever reason. */
  readonly ended: Promise<void>;
  #state: State = "serving";
  readonly #core: HubCore<OwnedFd>;
  readonly #gate: DescriptorGate;
  readonly #connections: ClientConnections;
  readonly #files: HubFiles;
  readonly #entrance: Entrance;
  readonly #journal: Journal;
  readonly #words: HubWords;
  readonly #service: HubService | undefined;
  readonly #metrics: (() => string | undefined) | undefined;
  readonly #idleMs: number;
  readonly #limitedLog: LimitedLog;
  readonly #log: Log;
  readonly #logsChanges: boolean;
  #idleTimer: NodeJS.Timeout | undefined;
  #settleEnded: () => void = () => {};

  private constructor(options: HubServerOptions, acquired: Acquired) {
    const { socketPath, lock, journal, isPassed } = acquired;
    this.socketPath = socketPath;
    this.#journal = journal;
    this.#service = options.service;
    this.#metrics = options.metrics;
    this.#idleMs = options.idleMs ?? defaults.hubIdleMs;
    this.#limitedLog = new LimitedLog(options.log ?? noLog);
    this.#log = this.#limitedLog.log;
    this.#logsChanges = options.logsChanges ?? false;
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve;
    });
    const policy = options.policy ?? privatePolicy(ownUid(), defaultQuotasOf(openFilesMax()));
    this.#words = new HubWords(acquired.words, policy, this.#log);
    this.#gate = new DescriptorGate(this.#log);
    this.#connections = new ClientConnections(this.#gate, this.#log, (change) => {
      if (change === "admitted") clearTimeout(this.#idleTimer);
      else this.#stopWhenIdle();
    });
    this.#core = new HubCore(
      identityOf(socketPath, this.#idleMs),
      policy,
      this.#ports(),
      firstId(),
    );
    this.#connections.serve(this.#core);
    journal.keepShort(() => this.#core.records());
    this.#entrance = new Entrance(acquired, this.#connections.newClients, this.#log);
    this.#files = new HubFiles({
      socketPath,
      lock,
      journal,
      ownsSocket: this.#service?.ownsSocket !== false,
      checkFolder: () => checkFolder(socketPath, options),
      makeFolder: () => makeFolder(socketPath, options),
      endIfUnused: () => this.#endIfUnused(),
      twin: this.#entrance,
      listen: () => listenAnew(socketPath, options),
      isPassed,
      onListener: (listener) => {
        this.#entrance.move(listener);
        this.#service?.store(LISTENER, [listener.fd]);
      },
      onLock: (lock) => this.#service?.store(LOCK, [lock]),
      log: this.#log,
    });
  }

  /**
   * Locks and listens. Replaces the socket file of a hub that died, and goes on with its journal.
   * @throws HUB_RUNNING, HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, SOCKET_PATH_TOO_LONG
   */
  static start(options: HubServerOptions = {}): HubServer {
    return acquireIn((scope) => {
      const acquired = acquireAll(scope, options);
      const hub = new HubServer(options, acquired);
      scope.defer(() => hub.#end("left", []));
      hub.#serve(acquired.inheritance);
      return hub;
    });
  }

  /** Whether it ended for the next hub to go on. */
  get hasLeft(): boolean {
    return this.#state === "left";
  }

  /** How much it keeps and serves, in words; undefined if nothing. */
  get inUse(): string | undefined {
    const { objectCount, connectionCount } = this.#core;
    if (objectCount + connectionCount === 0) return undefined;
    return `objects: ${objectCount}, clients: ${connectionCount}`;
  }

  /** Ends the hub for good. Names and leases are gone, and clients keep what they have mapped. */
  stop(): void {
    if (this.#state !== "serving") return;
    this.#service?.stopping();
    this.#end("stopped", [
      // Before the lock, because the next hub may bind the socket as soon as it has the lock.
      () => this.#files.removeSocket(),
      () => this.#entrance.close(),
      () => this.#connections.sayFarewell(),
      () => this.#journal.remove(),
      () => this.#files.unlock(),
    ]);
  }

  /**
   * Ends this process's part. The next hub finds the journal and the kept descriptors, and clients
   * reconnect to it by themselves.
   */
  leave(): void {
    this.#service?.leaving();
    this.#end("left", [() => this.#journal.settle()]);
  }

  /** Goes on with the inheritance, and lets clients in. */
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
    if (state.objects.size > 0)
      this.#log("hub-inherited", `an earlier hub left ${contentsOf(state)}; kept: ${objectCount}`, {
        count: objectCount,
      });
    // Before the first client, so that everything it shares outlives this process.
    const own = { lock: this.#files.lock, listener: this.#entrance.listener };
    this.#service?.begin(this.socketPath, own, (object) => this.#core.kept(object));
    prepareBells(this.#log);
    this.#gate.start();
    this.#entrance.open();
    this.#files.watch();
    const status = () =>
      `${this.#core.objectCount} objects of ${this.#core.connectionCount} clients`;
    this.#service?.ready(status);
    this.#stopWhenIdle();
  }

  #end(state: Exclude<State, "serving">, first: readonly (() => void)[]): void {
    if (this.#state !== "serving") return;
    this.#state = state;
    clearTimeout(this.#idleTimer);
    try {
      releaseAll([
        () => this.#files.stopWatching(),
        ...first,
        // Not earlier: `releases` already lets go of the connections, and `first` may use them.
        () => releaseAll(this.#connections.releases()),
        () => this.#gate.close(),
        () => this.#core.close(),
        () => this.#words.end(state === "stopped"),
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

  /** Ends from the event loop, which has nobody to throw at. Everything else is released. */
  #endByItself(end: () => void): void {
    try {
      end();
    } catch (error) {
      this.#log("internal-error", `cannot end cleanly: ${describeError(error)}`, codeOf(error));
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
      stop: () => setImmediate(() => this.#endByItself(() => this.stop())),
      restart: () => this.#restart(),
      troubles: () => [...this.#files.troubles, ...bellTroubles()],
      record: (records) => {
        this.#journal.append(records);
        if (this.#logsChanges) logChanges(this.#log, records);
      },
      memoryArrived: (object, fds) => this.#service?.store(objectKey(object), fds),
      memoryGone: (object) => this.#service?.remove(objectKey(object)),
      holderArrived: (session, connection) => this.#storeProcess(session, connection),
      holderGone: (session) => this.#service?.remove(sessionKey(session)),
      isKept: (object) => this.#service?.isKept(object) ?? true,
      keeper: () => this.#service?.keeper ?? null,
      metrics: () => this.#metrics?.() ?? null,
      objectLost: (description, { name, byteLength: bytes, ownerPid: pid, ownerUid: uid }) => {
        const message = `lost ${description}: hub and keeper ended together`;
        this.#log("object-lost", message, { name, bytes, pid, uid });
      },
      disconnected: (session, { pid, uid }, program, by) => {
        const what = `session ${session} of process ${pid} (${program})`;
        const message = `${what} was disconnected by process ${by.pid} of user ${by.uid}`;
        this.#log("session-disconnected", message, { session, pid, uid });
      },
    };
  }

  #restart(): void {
    if (this.#service?.restarts !== true) {
      throw new CudaIpcError(
        "NO_KEEPER",
        "Cannot restart the hub: no keeper or service manager would start the next",
      );
    }
    if (!this.#files.areReadable) {
      throw new CudaIpcError(
        "HUB_UNAVAILABLE",
        "Cannot restart the hub: its folder or its journal is missing, so the next one would not " +
          "find the names. `cuda-ipc hub status` says what to do",
      );
    }
    setImmediate(() => this.#endByItself(() => this.leave()));
  }

  /** Keeps the pidfd of a session's process, by which the next hub recognizes the process. */
  #storeProcess(session: SessionId, connection: ConnectionId): void {
    const pidfd = this.#connections.pidfdOf(connection);
    if (pidfd !== undefined) this.#service?.store(sessionKey(session), [pidfd]);
  }

  #stopWhenIdle(): void {
    clearTimeout(this.#idleTimer);
    const isIdle = this.#core.connectionCount === 0 && this.#core.objectCount === 0;
    if (this.#state !== "serving" || !isIdle || !Number.isFinite(this.#idleMs)) return;
    this.#idleTimer = setTimeout(() => {
      this.#log("hub-ended", `no clients and no objects for ${this.#idleMs} ms`);
      this.#endByItself(() => this.stop());
    }, this.#idleMs);
  }

  /** Who removes the folder of a hub that nobody uses wants no hub there. */
  #endIfUnused(): boolean {
    if (this.inUse !== undefined || !Number.isFinite(this.#idleMs)) return false;
    this.#log("hub-ended", "no clients and no objects, and its folder was removed");
    setImmediate(() => this.#endByItself(() => this.stop()));
    return true;
  }
}

function identityOf(socket: string, idleMs: number): HubIdentity {
  return {
    version: packageVersion(),
    instance: randomUUID(),
    pid: process.pid,
    startedAtMs: wallClockMs(),
    socket,
    idleMs: Number.isFinite(idleMs) ? idleMs : null,
  };
}
