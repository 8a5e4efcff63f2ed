/**
 * The hub on its socket: accepts clients of the same user, feeds their messages and ends to the core, and carries out
 * what the core asks for. Holds file descriptors only; it never loads a CUDA library.
 */
import { randomUUID } from "node:crypto";
import { checkInteger } from "../base/bytes.js";
import { CudaIpcError } from "../base/errors.js";
import { defaults, limits } from "../base/limits.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { packageVersion } from "../base/version.js";
import { FdWatch } from "../os/fd-watch.js";
import { restrictToOwner } from "../os/file-calls.js";
import { tryLockFile } from "../os/file-lock.js";
import { withWords } from "../os/mapped-words.js";
import { inspectMemoryFile, reopenReadOnly } from "../os/memory-file.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { checkRuntimeFolder, hubSocketPath, ownUid, prepareRuntimeFolder } from "../os/runtime-folder.js";
import { type Packet, SeqpacketListener, type SeqpacketSocket } from "../os/seqpacket.js";
import { removeStaleSocket, SocketFile } from "../os/socket-file.js";
import { encodeMessage } from "../wire/codec.js";
import type { Reply } from "../wire/messages.js";
import { lineAt, poison } from "../wire/timeline-line.js";
import { HubCore } from "./hub-core.js";
import type { HubPorts, SessionId } from "./ports.js";
import { refusal } from "./refusal.js";
import { Session } from "./session.js";

export interface HubServerOptions {
  /** Whether a folder that is missing is made; true by default. */
  readonly makesFolder?: boolean;
  /** Where to listen; see `hubSocketPath` for the default. */
  readonly socket?: string | undefined;
  /** How long to stay without clients and objects; `Infinity` for ever. */
  readonly idleMs?: number | undefined;
  /** Takes a line about what happened; silent by default. */
  readonly log?: ((line: string) => void) | undefined;
}

const ACCEPT_PAUSE_MS = 100;

export class HubServer {
  readonly socketPath: string;
  /** Settled once the hub has ended, whoever ended it. */
  readonly ended: Promise<void>;
  readonly #core: HubCore<OwnedFd>;
  readonly #lock: OwnedFd;
  readonly #listener: SeqpacketListener;
  readonly #socketFile: SocketFile;
  readonly #watch: FdWatch;
  readonly #sessions = new Map<SessionId, Session>();
  readonly #idleMs: number;
  readonly #log: (line: string) => void;
  #lastSession = 0;
  #open = true;
  #idleTimer: NodeJS.Timeout | undefined;
  #acceptTimer: NodeJS.Timeout | undefined;
  #settleEnded: () => void = () => {};

  private constructor(socketPath: string, options: HubServerOptions, lock: OwnedFd, listener: SeqpacketListener) {
    this.socketPath = socketPath;
    this.#lock = lock;
    this.#listener = listener;
    this.#socketFile = new SocketFile(socketPath);
    this.#idleMs = options.idleMs ?? defaults.hubIdleMs;
    this.#log = options.log ?? (() => {});
    this.ended = new Promise((resolve) => {
      this.#settleEnded = resolve;
    });
    const idleMs = Number.isFinite(this.#idleMs) ? this.#idleMs : null;
    const identity = { version: packageVersion(), instance: randomUUID(), pid: process.pid, startedAtMs: Date.now() };
    this.#core = new HubCore({ ...identity, socket: socketPath, idleMs }, this.#ports());
    this.#watch = new FdWatch(listener.fd, () => this.#acceptAll());
    this.#scheduleIdleEnd();
  }

  /**
   * Listens, after taking the lock beside the socket; a socket file that a dead hub left is replaced.
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
      removeStaleSocket(socketPath);
      const listener = scope.own(SeqpacketListener.listen(socketPath), (listener) => listener.close());
      // WHY allowed: the lock says that the file is this hub's.
      scope.defer(() => removeStaleSocket(socketPath));
      restrictToOwner(socketPath);
      return new HubServer(socketPath, options, lock, listener);
    });
  }

  /** Ends the hub: names and leases are gone, what clients have mapped stays theirs. */
  stop(): void {
    if (!this.#open) return;
    this.#open = false;
    clearTimeout(this.#idleTimer);
    clearTimeout(this.#acceptTimer);
    const sessions = [...this.#sessions.values()];
    this.#sessions.clear();
    try {
      releaseAll([
        () => this.#watch.close(),
        // WHY before the lock: the next hub may bind as soon as it has the lock.
        () => this.#socketFile.remove(),
        () => this.#listener.close(),
        ...sessions.map((session) => () => session.forget()),
        () => this.#core.close(),
        () => this.#lock.close(),
      ]);
    } finally {
      this.#settleEnded();
    }
  }

  /** WHY nothing is thrown: the event loop called, and what could be released was. */
  #stopByItself(): void {
    try {
      this.stop();
    } catch (error) {
      this.#log(`cannot release all at the end: ${describe(error)}`);
    }
  }

  /** WHY nothing is thrown: it is closed all the same, and what the core is in the middle of concerns others too. */
  #closeFd(fd: OwnedFd): void {
    try {
      fd.close();
    } catch (error) {
      this.#log(describe(error));
    }
  }

  #ports(): HubPorts<OwnedFd> {
    return {
      reply: (session, reply, fds) => this.#reply(session, reply, fds),
      hangUp: (session) => this.#sessions.get(session)?.hangUp(),
      stop: () => setImmediate(() => this.#stopByItself()),
      closeFd: (fd) => this.#closeFd(fd),
      inspectMemoryFile,
      reopenReadOnly,
      endTimeline: (memory, byteOffset) => this.#endTimeline(memory, byteOffset),
      now: () => Date.now(),
    };
  }

  #reply(id: SessionId, reply: Reply, fds: readonly OwnedFd[]): void {
    const session = this.#sessions.get(id);
    if (session === undefined || !session.channel.open) return;
    try {
      session.channel.send(encodeMessage(reply), fds);
    } catch (error) {
      // A client that cannot be answered has lost its session; the others must not notice.
      session.hangUp(error);
    }
  }

  /** SAFETY: the place was checked against the sealed memory when the timeline was created. */
  #endTimeline(memory: OwnedFd, byteOffset: number): void {
    try {
      withWords(memory, (words) => poison(lineAt(words, byteOffset)));
    } catch (error) {
      // WHY not thrown: an owner can have sealed its memory against writing since; that spoils its own timeline and nothing else.
      this.#log(`cannot end a timeline: ${describe(error)}`);
    }
  }

  #acceptAll(): void {
    try {
      for (;;) {
        const socket = this.#listener.tryAccept();
        if (socket === undefined) return;
        this.#serve(socket);
      }
    } catch (error) {
      this.#log(`cannot accept a client: ${describe(error)}`);
      // WHY a pause: with the table of open files full, the listener stays readable and would spin.
      this.#watch.pause();
      this.#acceptTimer = setTimeout(() => this.#watch.resume(), ACCEPT_PAUSE_MS);
    }
  }

  /** Begins a session, or says why not and hangs up. */
  #serve(socket: SeqpacketSocket): void {
    try {
      this.#admit(socket);
    } catch (error) {
      this.#log(`refused a client: ${describe(error)}`);
      try {
        socket.trySend(encodeMessage(refusal(0, error)));
      } catch (sendError) {
        this.#log(`could not tell it so: ${describe(sendError)}`);
      } finally {
        socket.close();
      }
    }
  }

  /** @throws UNTRUSTED_PEER, LIMIT_EXCEEDED, TOO_MANY_FDS */
  #admit(socket: SeqpacketSocket): void {
    const credentials = socket.peerCredentials();
    this.#checkAdmissible(credentials.uid);
    this.#lastSession += 1;
    const id = this.#lastSession;
    const session = Session.start(socket, credentials, {
      onPacket: (packet) => this.#onPacket(id, packet),
      onHangUp: (reason) => this.#onHangUp(id, reason),
      onGone: () => this.#onGone(id),
      onReleaseFailure: (error) => this.#log(`cannot release all of a client: ${describe(error)}`),
    });
    this.#sessions.set(id, session);
    this.#core.sessionStarted(id, credentials.pid);
    clearTimeout(this.#idleTimer);
  }

  #checkAdmissible(uid: number): void {
    if (uid !== ownUid()) {
      throw new CudaIpcError("UNTRUSTED_PEER", `Cannot serve user ${uid}: this hub is of user ${ownUid()}`);
    }
    if (this.#sessions.size >= limits.hubClientsMax) {
      const message = `Cannot serve another client: ${this.#sessions.size} are connected, the limit (hubClientsMax)`;
      throw new CudaIpcError("LIMIT_EXCEEDED", message);
    }
  }

  #onPacket(id: SessionId, packet: Packet): void {
    if (packet.damage === undefined) {
      this.#core.packet(id, packet.bytes, packet.fds);
    } else {
      this.#core.damagedPacket(id, packet.bytes, packet.damage);
    }
    this.#forgetIfEnded(id);
  }

  #onHangUp(id: SessionId, reason: unknown): void {
    const pid = this.#sessions.get(id)?.credentials.pid;
    if (reason !== undefined) this.#log(`hung up on process ${pid}: ${describe(reason)}`);
    this.#core.sessionHungUp(id);
    this.#forgetIfEnded(id);
  }

  #onGone(id: SessionId): void {
    this.#core.sessionEnded(id);
    this.#forgetIfEnded(id);
  }

  #forgetIfEnded(id: SessionId): void {
    const session = this.#sessions.get(id);
    if (session === undefined || this.#core.hasSession(id)) return;
    this.#sessions.delete(id);
    session.forget();
    if (this.#open) this.#scheduleIdleEnd();
  }

  #scheduleIdleEnd(): void {
    if (this.#sessions.size > 0 || this.#core.objectCount > 0 || !Number.isFinite(this.#idleMs)) return;
    clearTimeout(this.#idleTimer);
    this.#idleTimer = setTimeout(() => {
      this.#log(`no clients and no objects for ${this.#idleMs} ms`);
      this.#stopByItself();
    }, this.#idleMs);
  }
}

function describe(error: unknown): string {
  if (error instanceof CudaIpcError) return `${error.code}: ${error.message}`;
  return error instanceof Error ? error.message : String(error);
}
