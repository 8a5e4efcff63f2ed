/**
 * The hub on its socket: accepts clients, feeds what they say and how they end to the core, and carries out what the core asks for.
 * Holds file descriptors only; it never loads a CUDA library.
 */
import { randomUUID } from "node:crypto";
import { chmodSync } from "node:fs";
import { checkInteger } from "../base/bytes.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { packageVersion } from "../base/version.js";
import { FdWatch } from "../os/fd-watch.js";
import { tryLockFile } from "../os/file-lock.js";
import { withWords } from "../os/mapped-words.js";
import { inspectMemoryFile, reopenReadOnly, reopenWritable, restrictMemoryFile } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ownIdentity } from "../os/process-identity.js";
import { checkRuntimeFolder, hubSocketPath, ownUid, prepareRuntimeFolder } from "../os/runtime-folder.js";
import { SeqpacketListener } from "../os/seqpacket.js";
import { removeStaleSocket, SocketFile } from "../os/socket-file.js";
import { lineAt, poison } from "../wire/timeline-line.js";
import { ClientConnections, describeError } from "./client-connections.js";
import { HubCore } from "./hub-core.js";
import type { HubRecord, HubState } from "./hub-records.js";
import { Journal } from "./journal.js";
import { type HubPolicy, privatePolicy } from "./policy.js";
import type { HubPorts } from "./ports.js";

export interface HubServerOptions {
  /** Whether a folder that is missing is made; true by default. */
  readonly makesFolder?: boolean;
  /** Where to listen; see `hubSocketPath` for the default. */
  readonly socket?: string | undefined;
  /** How long to stay without clients and objects; `Infinity` for ever. */
  readonly idleMs?: number | undefined;
  /** Whom to serve, and how much each may have; this user alone by default. */
  readonly policy?: HubPolicy | undefined;
  /** Takes a line about what happened; silent by default. */
  readonly log?: ((line: string) => void) | undefined;
}

/** What a hub that starts has acquired. */
interface Acquired {
  readonly lock: OwnedFd;
  readonly listener: SeqpacketListener;
  readonly journal: Journal;
  readonly state: HubState;
}

const ACCEPT_PAUSE_MS = 100;

export class HubServer {
  readonly socketPath: string;
  /** Settled once the hub has ended, whoever ended it. */
  readonly ended: Promise<void>;
  readonly #core: HubCore<OwnedFd>;
  readonly #connections: ClientConnections;
  readonly #lock: OwnedFd;
  readonly #listener: SeqpacketListener;
  readonly #socketFile: SocketFile;
  readonly #journal: Journal;
  readonly #watch: FdWatch;
  readonly #idleMs: number;
  readonly #log: (line: string) => void;
  #open = true;
  #idleTimer: NodeJS.Timeout | undefined;
  #acceptTimer: NodeJS.Timeout | undefined;
  #compaction: NodeJS.Immediate | undefined;
  #settleEnded: () => void = () => {};

  private constructor(socketPath: string, options: HubServerOptions, { lock, listener, journal, state }: Acquired) {
    this.socketPath = socketPath;
    this.#lock = lock;
    this.#listener = listener;
    this.#journal = journal;
    this.#socketFile = new SocketFile(socketPath);
    this.#idleMs = options.idleMs ?? defaults.hubIdleMs;
    this.#log = options.log ?? (() => {});
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve;
    });
    const idleMs = Number.isFinite(this.#idleMs) ? this.#idleMs : null;
    const identity = { version: packageVersion(), instance: randomUUID(), pid: process.pid, startedAtMs: Date.now() };
    const policy = options.policy ?? privatePolicy(ownUid());
    this.#connections = new ClientConnections(this.#log, () => this.#scheduleIdleEnd());
    this.#core = new HubCore({ ...identity, socket: socketPath, idleMs }, policy, this.#ports(), firstId());
    this.#connections.serve(this.#core);
    try {
      this.#inherit(state);
      this.#watch = new FdWatch(listener.fd, () => this.#acceptAll());
    } catch (error) {
      releaseAll(this.#connections.releases());
      throw error;
    }
    this.#scheduleIdleEnd();
  }

  /**
   * Listens, after taking the lock beside the socket. What a hub left that died is replaced: its socket file, and its journal,
   * from which names and leases are as before.
   * @throws HUB_RUNNING, UNSAFE_RUNTIME_DIR, SOCKET_PATH_TOO_LONG
   */
  static start(options: HubServerOptions = {}): HubServer {
    if (options.idleMs !== undefined && options.idleMs !== Number.POSITIVE_INFINITY) {
      checkInteger("idleMs", options.idleMs, 0, 2 ** 31 - 1);
    }
    const socketPath = hubSocketPath(options.socket);
    if (options.makesFolder ?? true) prepareRuntimeFolder(socketPath);
    else if (!checkRuntimeFolder(socketPath)) {
      throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot start a hub at ${socketPath}: its folder is gone`);
    }
    return acquireIn((scope) => {
      const lock = tryLockFile(`${socketPath}.lock`);
      if (lock === undefined)
        throw new CudaIpcError("HUB_RUNNING", `Cannot start a hub at ${socketPath}: one runs there`);
      scope.own(lock, (lock) => lock.close());
      const log = options.log ?? (() => {});
      const { bootId } = ownIdentity();
      const journalPath = `${socketPath}.journal`;
      const state = Journal.read(journalPath, bootId, log);
      const journal = scope.own(Journal.create(journalPath, bootId, state, log), (journal) => journal.close());
      removeStaleSocket(socketPath);
      const listener = scope.own(SeqpacketListener.listen(socketPath), (listener) => listener.close());
      chmodSync(socketPath, 0o600);
      return new HubServer(socketPath, options, { lock, listener, journal, state });
    });
  }

  /** Ends the hub for good: names and leases are gone, what clients have mapped stays theirs. */
  stop(): void {
    if (!this.#open) return;
    this.#open = false;
    clearTimeout(this.#idleTimer);
    clearTimeout(this.#acceptTimer);
    clearImmediate(this.#compaction);
    try {
      releaseAll([
        () => this.#watch.close(),
        // WHY before the lock: the next hub may bind as soon as it has the lock.
        () => this.#socketFile.remove(),
        () => this.#listener.close(),
        () => this.#connections.sayFarewell(),
        // WHY not earlier: asking for the releases already lets go of the connections, and what comes first may speak to them.
        () => releaseAll(this.#connections.releases()),
        () => this.#core.close(),
        () => this.#journal.remove(),
        () => this.#lock.close(),
      ]);
    } finally {
      this.#settleEnded();
    }
  }

  #ports(): HubPorts<OwnedFd> {
    const connections = this.#connections;
    return {
      reply: (connection, reply, fds) => connections.reply(connection, reply, fds),
      hangUp: (connection) => connections.hangUp(connection),
      forget: (connection) => connections.forget(connection),
      pause: (connection, milliseconds) => connections.pause(connection, milliseconds),
      stop: () => setImmediate(() => this.stop()),
      handOver: () => {},
      record: (records) => this.#record(records),
      memoryArrived: () => {},
      memoryGone: () => {},
      closeFd: (fd) => fd.close(),
      inspectMemoryFile,
      restrictMemoryFile,
      reopenReadOnly,
      reopenWritable,
      endTimeline: (memory, byteOffset) => this.#endTimeline(memory, byteOffset),
      now: () => Date.now(),
      monotonicMs: () => performance.now(),
    };
  }

  /** Goes on where a hub that died had got to: its clients come back with what they hold, and those that have ended are found out. */
  #inherit(state: HubState): void {
    const connections = [...state.sessions.values()].map((session) => {
      const { pid, startTicks, uid, gid, groups } = session;
      const peer = { pid, startTicks, uid, gid, groups };
      return { id: this.#connections.nextId(), peer, attached: false, session, unrestored: null, waiting: [] };
    });
    this.#core.inherit({ state, connections, memory: new Map() });
    for (const { id, peer } of connections) if (this.#core.hasConnection(id)) this.#connections.watch(id, peer);
    if (state.objects.size > 0) {
      this.#log(
        `an earlier hub left ${state.objects.size} objects of ${connections.length} clients; kept: ${this.#core.objectCount}`,
      );
    }
  }

  #record(records: readonly HubRecord[]): void {
    this.#journal.append(records);
    if (!this.#journal.isLong || this.#compaction !== undefined) return;
    // WHY later: the change that this record is of has not taken effect yet.
    this.#compaction = setImmediate(() => {
      this.#compaction = undefined;
      this.#journal.compact(this.#core.state());
    });
  }

  /** SAFETY: the place was checked against the sealed memory when the timeline was created. */
  #endTimeline(memory: OwnedFd, byteOffset: number): void {
    try {
      withWords(memory, (words) => poison(lineAt(words, byteOffset)));
    } catch (error) {
      // WHY not thrown: an owner can have sealed its memory against writing since; that spoils its own timeline and nothing else.
      this.#log(`cannot end a timeline: ${describeError(error)}`);
    }
  }

  #acceptAll(): void {
    try {
      for (;;) {
        const socket = this.#listener.tryAccept();
        if (socket === undefined) return;
        if (this.#connections.admit(socket)) clearTimeout(this.#idleTimer);
      }
    } catch (error) {
      this.#log(`cannot accept a client: ${describeError(error)}`);
      // WHY a pause: with the table of open files full, the listener stays readable and would spin.
      this.#watch.pause();
      this.#acceptTimer = setTimeout(() => this.#watch.resume(), ACCEPT_PAUSE_MS);
    }
  }

  #scheduleIdleEnd(): void {
    clearTimeout(this.#idleTimer);
    const isIdle = this.#core.connectionCount === 0 && this.#core.objectCount === 0;
    if (!this.#open || !isIdle || !Number.isFinite(this.#idleMs)) return;
    this.#idleTimer = setTimeout(() => {
      this.#log(`no clients and no objects for ${this.#idleMs} ms`);
      this.stop();
    }, this.#idleMs);
  }
}

/** WHY by the clock: it is ahead of all numbers that earlier hubs of this boot gave, also of those that no journal knows. */
function firstId(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
