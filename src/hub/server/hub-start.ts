/** Acquires what a hub needs to serve: the lock, the socket, the journal and its state. */
import { setFlagsFromString } from "node:v8";
import { checkInteger } from "../../base/bytes.js";
import { CudaIpcError, SystemError } from "../../base/errors.js";
import { type Log, noLog } from "../../base/log-events.js";
import { releaseAll, type Scope } from "../../base/scope.js";
import { isLocked, lockHolder, signLock, tryLockPath } from "../../os/file-lock.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { ownIdentity } from "../../os/process-identity.js";
import {
  hubSocketPath,
  ownUid,
  prepareCommonFolder,
  prepareRuntimeFolder,
} from "../../os/runtime-folder.js";
import { SeqpacketSocket } from "../../os/seqpacket.js";
import { FOR_ALL, OWNER_ONLY, SeqpacketListener } from "../../os/seqpacket-listener.js";
import { removeStaleSocket } from "../../os/socket-file.js";
import { isTwinHeld, tryConnectTwin, tryHoldTwin } from "../../os/socket-twin.js";
import { type HubPolicy, servesOthers } from "../limits/policy.js";
import type { ObjectMemory } from "../objects/shared-object.js";
import type { HubService } from "../restart/hub-service.js";
import { type Inheritance, inheritanceAfterCrash } from "../restart/inheritance.js";
import { Journal } from "../restart/journal.js";
import { LOCK } from "../restart/stored-names.js";
import { FileWords } from "../words/file-words.js";

export interface HubServerOptions {
  /** Whether to make a missing folder. Default: true. */
  readonly makesFolder?: boolean;
  /** The path to listen at. See `hubSocketPath` for the default. */
  readonly socket?: string | undefined;
  /** How long to stay without clients and objects. `Infinity` means for ever. */
  readonly idleMs?: number | undefined;
  /** The served users and their limits. Default: this user only. */
  readonly policy?: HubPolicy | undefined;
  /** The service manager or keeper that starts the next hub. The hub takes it over. */
  readonly service?: HubService | undefined;
  /** The URL of its metrics for `status`, once a child process serves them. */
  readonly metrics?: (() => string | undefined) | undefined;
  /** Default: no log. */
  readonly log?: Log | undefined;
  /** Whether to log each change of an object, a lease or a session. Default: false. */
  readonly logsChanges?: boolean;
}

export interface Acquired {
  readonly socketPath: string;
  readonly lock: OwnedFd;
  readonly listener: SeqpacketListener;
  /** Undefined if it could not be had. */
  readonly twin: SeqpacketListener | undefined;
  /** Whether another process made the listener. */
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
  if (!prepareFolder(socketPath, options, options.makesFolder ?? service?.isSuccessor !== true)) {
    // For good, because somebody removed the folder and wants no hub there.
    service?.stopping();
    throw new CudaIpcError(
      "HUB_UNAVAILABLE",
      `Cannot start a hub at ${socketPath}: its folder is gone`,
    );
  }
  const { lock, twin } = takePlace(scope, socketPath, service);
  const log = options.log ?? noLog;
  const passed = service?.takeListener();
  // Somebody may have removed the lock file of a hub that still runs.
  if (passed === undefined) refuseSecondHub(socketPath);
  else scope.own(passed, (passed) => passed.close());
  const { bootId } = ownIdentity();
  const words = scope.own(new FileWords(), (words) => words.close());
  const journalPath = journalPathOf(socketPath);
  const { journal, state } = Journal.open(journalPath, bootId, log);
  scope.own(journal, (journal) => journal.close());
  const listener =
    passed ?? scope.own(listenAnew(socketPath, options), (listener) => listener.close());
  // The lock proves that the file is this hub's.
  if (passed === undefined) scope.defer(() => removeStaleSocket(socketPath));
  const memory = service?.takeMemory(state.objects) ?? new Map<number, ObjectMemory<OwnedFd>>();
  for (const { fds } of memory.values())
    scope.defer(() => releaseAll(fds.map((fd) => () => fd.close())));
  const isPassed = passed !== undefined;
  return {
    socketPath,
    lock,
    listener,
    twin,
    isPassed,
    journal,
    words,
    inheritance: inheritanceAfterCrash(state, memory),
  };
}

/**
 * Takes the twin first: a hub that lives and whose lock was removed still has it. Such a hub is
 * given a moment to make its files again, unless it is stopped, or another user has the address.
 */
function takePlace(
  scope: Scope,
  socketPath: string,
  service: HubService | undefined,
): Pick<Acquired, "lock" | "twin"> {
  let twin = tryHoldTwin(socketPath);
  for (let look = 0; twin === undefined && isTwinHeld(socketPath) && look < TWIN_LOOKS; look += 1) {
    // The lock of an earlier hub is proof enough.
    if (service?.isSuccessor === true) break;
    const pid = pidOfListener(socketPath) ?? pidAtTwin(socketPath);
    if (pid !== undefined) throw runsThere(socketPath, `process ${pid}`);
    sleep(LOOK_PAUSE_MS);
    twin = tryHoldTwin(socketPath);
  }
  if (twin !== undefined) scope.own(twin, (twin) => twin.close());
  return { lock: scope.own(takeLock(socketPath, service), (lock) => lock.close()), twin };
}

function pidAtTwin(socketPath: string): number | undefined {
  const socket = tryConnectTwin(socketPath, new Set([ownUid()]));
  if (socket === "crowded") return undefined;
  const pid = socket?.peerCredentials().pid;
  socket?.close();
  return pid;
}

/** Takes the lock of the earlier hub if its file is still in place, and otherwise locks anew. */
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
  // For good: another hub runs there, so this one would be started again and again.
  if (inherited !== undefined) service?.stopping();
  throw runsThere(socketPath, lockHolder(path)?.words);
}

/** Looks several times: the lock of a killed hub is free a moment before its socket closes. */
function refuseSecondHub(socketPath: string): void {
  let pid: number | undefined;
  for (let look = 0; look < LOOKS; look += 1) {
    if (look > 0) sleep(LOOK_PAUSE_MS);
    pid = pidOfListener(socketPath);
    if (pid === undefined) return;
  }
  throw runsThere(socketPath, `process ${pid}`);
}

const LOOKS = 10;
const LOOK_PAUSE_MS = 10;
const TWIN_LOOKS = 300;

function sleep(milliseconds: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, milliseconds);
}

function runsThere(socketPath: string, who = "another process"): CudaIpcError {
  return new CudaIpcError(
    "HUB_RUNNING",
    `Cannot start a hub at ${socketPath}: one runs there (${who})`,
  );
}

/** The process that listens at this path. Undefined if none does. */
export function pidOfListener(socketPath: string): number | undefined {
  try {
    const socket = SeqpacketSocket.connect(socketPath);
    try {
      return socket.peerCredentials().pid;
    } finally {
      socket.close();
    }
  } catch (error) {
    // EAGAIN: the backlog is full, so somebody listens.
    return error instanceof SystemError && error.errnoName === "EAGAIN" ? 0 : undefined;
  }
}

export function lockPathOf(socketPath: string): string {
  return `${socketPath}.lock`;
}

/** @throws UNSAFE_RUNTIME_DIR */
function prepareFolder(socketPath: string, options: HubServerOptions, makes: boolean): boolean {
  const prepare = isForOthers(options) ? prepareCommonFolder : prepareRuntimeFolder;
  return prepare(socketPath, makes);
}

/**
 * Whether the socket's folder is there.
 * @throws UNSAFE_RUNTIME_DIR if others could write to it
 */
export function checkFolder(socketPath: string, options: HubServerOptions): boolean {
  return prepareFolder(socketPath, options, false);
}

/** Makes the socket's folder again. */
export function makeFolder(socketPath: string, options: HubServerOptions): void {
  prepareFolder(socketPath, options, true);
}

function isForOthers({ policy }: HubServerOptions): boolean {
  return policy !== undefined && servesOthers(policy);
}

function checkedPath({ idleMs, socket }: HubServerOptions): string {
  if (idleMs !== undefined && idleMs !== Number.POSITIVE_INFINITY)
    checkInteger("idleMs", idleMs, 0, 2 ** 31 - 1);
  return hubSocketPath(socket);
}

function journalPathOf(socketPath: string): string {
  return `${socketPath}.journal`;
}

export function listenAnew(socketPath: string, options: HubServerOptions): SeqpacketListener {
  refuseOtherKind(socketPath);
  removeStaleSocket(socketPath);
  // Everybody, even if the hub serves one group: its refusal says more than EACCES.
  const mode = isForOthers(options) ? FOR_ALL : OWNER_ONLY;
  return SeqpacketListener.listen(socketPath, { mode });
}

/** The lock says nothing about other programs, such as a session bus in the same folder. */
function refuseOtherKind(socketPath: string): void {
  try {
    SeqpacketSocket.connect(socketPath).close();
  } catch (error) {
    if (!(error instanceof SystemError && error.errnoName === "EPROTOTYPE")) return;
    const message = `Cannot listen at ${socketPath}: a socket of another kind is there`;
    throw new CudaIpcError("HUB_UNAVAILABLE", message, { cause: error });
  }
}

/** By the clock, which is ahead of all numbers of earlier hubs, even those in no journal. */
export function firstId(): number {
  return Number(process.hrtime.bigint() / 1000n);
}

/** Settings of a hub's process. Call it before the hub starts. */
export function prepareHubProcess(): void {
  // The socket and its lock are for this user only.
  process.umask(0o077);
  // WHY: V8 lets the young generation grow to 16 MiB. Under attack, collecting it took up to 16 ms.
  setFlagsFromString("--semi-space-growth-factor=1");
}
