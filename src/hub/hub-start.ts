/** What a hub needs before it can serve: the lock, the socket, the journal and what is in it. */
import { checkInteger } from "../base/bytes.js";
import { CudaIpcError, SystemError } from "../base/errors.js";
import { acquireIn, releaseAll, type Scope } from "../base/scope.js";
import { openToAll, restrictToOwner } from "../os/file-calls.js";
import { isLocked, lockHolder, signLock, tryLockPath } from "../os/file-lock.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { ownIdentity } from "../os/process-identity.js";
import { hubSocketPath, prepareCommonFolder, prepareRuntimeFolder } from "../os/runtime-folder.js";
import { SeqpacketListener, SeqpacketSocket } from "../os/seqpacket.js";
import { removeStaleSocket } from "../os/socket-file.js";
import { FileWords } from "./file-words.js";
import type { HubService } from "./hub-service.js";
import type { Inheritance } from "./inheritance.js";
import { inheritanceAfterCrash } from "./inheritance-after-crash.js";
import { Journal } from "./journal.js";
import { type HubPolicy, servesOthers } from "./policy.js";
import type { ObjectMemory } from "./shared-object.js";
import { LOCK } from "./stored-names.js";

export interface HubServerOptions {
  /** Whether a folder that is missing is made; true by default. */
  readonly makesFolder?: boolean;
  /** Where to listen; see `hubSocketPath` for the default. */
  readonly socket?: string | undefined;
  /** How long to stay without clients and objects; `Infinity` for ever. */
  readonly idleMs?: number | undefined;
  /** Whom to serve, and how much each may have; this user alone by default. */
  readonly policy?: HubPolicy | undefined;
  /** The service manager or keeper that starts the next hub; the hub's from here on. None by default. */
  readonly service?: HubService | undefined;
  /** Takes a line about what happened; silent by default. */
  readonly log?: ((line: string) => void) | undefined;
}

/** What a hub that starts has acquired, and where it goes on. */
export interface Acquired {
  readonly socketPath: string;
  readonly lock: OwnedFd;
  readonly listener: SeqpacketListener;
  /** Whether the listener was made by another process. */
  readonly isPassed: boolean;
  readonly journal: Journal;
  readonly words: FileWords;
  readonly inheritance: Inheritance<OwnedFd>;
}

/** @throws HUB_RUNNING, HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, SOCKET_PATH_TOO_LONG */
export function acquireAll(scope: Scope, options: HubServerOptions): Acquired {
  const { service } = options;
  scope.defer(() => service?.close());
  const socketPath = checkedPath(options);
  const prepareFolder = isForOthers(options) ? prepareCommonFolder : prepareRuntimeFolder;
  if (!prepareFolder(socketPath, options.makesFolder ?? service?.isSuccessor !== true)) {
    // WHY for good: whoever removed it wants no hub there any more.
    service?.stopping();
    throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot start a hub at ${socketPath}: its folder is gone`);
  }
  const lock = scope.own(takeLock(socketPath, service), (lock) => lock.close());
  const log = options.log ?? (() => {});
  const passed = service?.takeListener();
  // WHY: the lock can have been removed under a hub that lives.
  if (passed === undefined) refuseSecondHub(socketPath);
  else scope.own(passed, (passed) => passed.close());
  const { bootId } = ownIdentity();
  const words = scope.own(new FileWords(), (words) => words.close());
  const journalPath = journalPathOf(socketPath);
  const { journal, state } = Journal.open(journalPath, bootId, log);
  scope.own(journal, (journal) => journal.close());
  const listener = passed ?? scope.own(listenAnew(socketPath, options), (listener) => listener.close());
  // WHY allowed: the lock says that the file is this hub's.
  if (passed === undefined) scope.defer(() => removeStaleSocket(socketPath));
  const memory = service?.takeMemory(state.objects) ?? new Map<number, ObjectMemory<OwnedFd>>();
  for (const { fds } of memory.values()) scope.defer(() => releaseAll(fds.map((fd) => () => fd.close())));
  const isPassed = passed !== undefined;
  return { socketPath, lock, listener, isPassed, journal, words, inheritance: inheritanceAfterCrash(state, memory) };
}

/** The lock of the earlier hub, if the file that is there now is the one that is locked. */
function takeLock(socketPath: string, service: HubService | undefined): OwnedFd {
  const path = lockPathOf(socketPath);
  const inherited = service?.takeLock();
  if (inherited !== undefined) {
    if (isLocked(inherited, path)) {
      signLock(inherited);
      return inherited;
    }
    inherited.close();
    service?.remove(LOCK);
  }
  const lock = tryLockPath(path);
  if (lock !== undefined) return lock;
  // WHY for good: another hub serves there, and this one would be started again and again.
  if (inherited !== undefined) service?.stopping();
  throw runsThere(socketPath, lockHolder(path)?.words);
}

/** WHY more than once: of a hub that was killed, the lock is gone a moment before the socket. */
function refuseSecondHub(socketPath: string): void {
  let pid: number | undefined;
  for (let look = 0; look < LOOKS; look += 1) {
    if (look > 0) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, LOOK_PAUSE_MS);
    pid = pidOfListener(socketPath);
    if (pid === undefined) return;
  }
  throw runsThere(socketPath, `process ${pid}`);
}

const LOOKS = 10;
const LOOK_PAUSE_MS = 10;

function runsThere(socketPath: string, who = "another process"): CudaIpcError {
  return new CudaIpcError("HUB_RUNNING", `Cannot start a hub at ${socketPath}: one runs there (${who})`);
}

/** The process that listens at this path; undefined if none does. */
export function pidOfListener(socketPath: string): number | undefined {
  try {
    const socket = SeqpacketSocket.connect(socketPath);
    try {
      return socket.peerCredentials().pid;
    } finally {
      socket.close();
    }
  } catch (error) {
    // A queue of connections that is full is somebody's.
    return error instanceof SystemError && error.errnoName === "EAGAIN" ? 0 : undefined;
  }
}

export function lockPathOf(socketPath: string): string {
  return `${socketPath}.lock`;
}

function isForOthers({ policy }: HubServerOptions): boolean {
  return policy !== undefined && servesOthers(policy);
}

/** Lets those connect to whom the hub has something to say. */
function setReach(socketPath: string, options: HubServerOptions): void {
  // WHY to all, also where only a group is served: whom it does not serve the hub tells so, and the kernel would say EACCES.
  if (isForOthers(options)) openToAll(socketPath);
  else restrictToOwner(socketPath);
}

function checkedPath({ idleMs, socket }: HubServerOptions): string {
  if (idleMs !== undefined && idleMs !== Number.POSITIVE_INFINITY) checkInteger("idleMs", idleMs, 0, 2 ** 31 - 1);
  return hubSocketPath(socket);
}

function journalPathOf(socketPath: string): string {
  return `${socketPath}.journal`;
}

export function listenAnew(socketPath: string, options: HubServerOptions): SeqpacketListener {
  refuseOtherKind(socketPath);
  removeStaleSocket(socketPath);
  return acquireIn((scope) => {
    const listener = scope.own(SeqpacketListener.listen(socketPath), (listener) => listener.close());
    // WHY allowed: the lock says that the file is this hub's.
    scope.defer(() => removeStaleSocket(socketPath));
    setReach(socketPath, options);
    return listener;
  });
}

/** WHY: the lock says that no hub listens there, and nothing about other programs, as a session bus in the same folder. */
function refuseOtherKind(socketPath: string): void {
  try {
    SeqpacketSocket.connect(socketPath).close();
  } catch (error) {
    if (!(error instanceof SystemError && error.errnoName === "EPROTOTYPE")) return;
    const message = `Cannot listen at ${socketPath}: a socket of another kind is there`;
    throw new CudaIpcError("HUB_UNAVAILABLE", message, { cause: error });
  }
}

/** WHY by the clock: it is ahead of all numbers that earlier hubs of this boot gave, also of those that no journal knows. */
export function firstId(): number {
  return Number(process.hrtime.bigint() / 1000n);
}
