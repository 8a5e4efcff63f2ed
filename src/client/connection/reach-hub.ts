/**
 * One attempt to reach the hub: connects to the hub that listens, or starts one. Only one process
 * at a time starts a hub; in the end the hub's own lock decides which one serves.
 */
import { existsSync } from "node:fs";
import type { Deadline } from "../../base/deadline.js";
import { CudaIpcError, hasCode, SystemError } from "../../base/errors.js";
import { GrowingPause } from "../../base/pause.js";
import { lockHolder, tryLockFile } from "../../os/file-lock.js";
import type { OwnedFd } from "../../os/owned-fd.js";
import { processState } from "../../os/process-identity.js";
import {
  checkCommonFolder,
  folderOwner,
  ownUid,
  prepareRuntimeFolder,
} from "../../os/runtime-folder.js";
import { SeqpacketSocket } from "../../os/seqpacket.js";
import { isTwinHeld, tryConnectTwin } from "../../os/socket-twin.js";
import { HubConnection } from "./hub-connection.js";
import { Farewell } from "./hub-reply.js";
import { KeepAlive } from "./keep-alive.js";

/** The hub's address, and how to greet and start it. */
export interface HubTarget {
  readonly socketPath: string;
  readonly program: string;
  /** The users whose hub is trusted. */
  readonly trusted: ReadonlySet<number>;
  /** True if a hub may be started. */
  readonly start: boolean;
  /** How long a hub that is started stays without clients and objects. */
  readonly hubIdleMs: number | undefined;
}

export interface Greeting {
  readonly deadline: Deadline;
  /** The session to continue. */
  readonly session?: number | undefined;
  /** Whether the attempt keeps this process alive. By default it does. */
  readonly keepAlive?: KeepAlive;
}

/**
 * Undefined if no hub listens. Tries again while a hub listens that cannot take this client yet.
 * @throws Farewell if the hub is being stopped; UNTRUSTED_PEER, PROTOCOL_MISMATCH, LIMIT_EXCEEDED,
 * TIMEOUT, ABORTED
 */
export async function tryConnect(
  target: HubTarget,
  greeting: Greeting,
): Promise<HubConnection | undefined> {
  const { socketPath, program, trusted } = target;
  const { deadline, session, keepAlive } = greeting;
  const pause = new GrowingPause(CROWDED_PAUSE_MS_MAX);
  const startedMs = performance.now();
  for (;;) {
    try {
      const socket = dial(socketPath, trusted);
      if (socket === undefined) return undefined;
      if (socket !== "crowded")
        return await HubConnection.open(
          socketPath,
          socket,
          program,
          deadline,
          trusted,
          session,
          keepAlive,
        );
      // WHY not for good: any user can take the twin's address and let nobody in.
      if (performance.now() - startedMs > START_PATIENCE_MS) return undefined;
    } catch (error) {
      if (!isCrowded(error)) throw error;
    }
    await waitInCrowd(pause.nextMs(), deadline, keepAlive);
  }
}

/** Undefined if nobody listens. A hub that has lost its folder listens at the twin. */
function dial(
  socketPath: string,
  trusted: ReadonlySet<number>,
): SeqpacketSocket | "crowded" | undefined {
  try {
    if (checkCommonFolder(socketPath, trusted)) return SeqpacketSocket.connect(socketPath);
  } catch (error) {
    const isAbsent = error instanceof SystemError && ABSENT.has(error.errnoName);
    const isLost = isAbsent || hasCode(error, "UNSAFE_RUNTIME_DIR");
    const twin = isLost ? tryConnectTwin(socketPath, trusted) : undefined;
    if (twin === undefined && !isAbsent) throw error;
    return twin;
  }
  return tryConnectTwin(socketPath, trusted);
}

/** No socket file, or no listener behind it. */
const ABSENT = new Set(["ENOENT", "ECONNREFUSED"]);

/** Short, because others compete for the next free slot in the queue. */
const CROWDED_PAUSE_MS_MAX = 10;

/**
 * True if a hub listened: its queue of connections was full, or it hung up before its first word. A
 * hub that has ended hangs up as well, and is absent at the next attempt.
 */
function isCrowded(error: unknown): boolean {
  if (error instanceof SystemError) return error.errnoName === "EAGAIN";
  return hasCode(error, "HUB_GONE") && !(error instanceof Farewell);
}

async function waitInCrowd(
  milliseconds: number,
  deadline: Deadline,
  keepAlive = new KeepAlive(),
): Promise<void> {
  let end = () => {};
  const over = new Promise<void>((resolve) => {
    end = resolve;
  });
  const timer = setTimeout(end, milliseconds);
  keepAlive.hold(timer);
  try {
    await deadline.race(over, () => clearTimeout(timer));
  } catch (error) {
    if (!hasCode(error, "TIMEOUT")) throw error;
    const found = "a hub listens there, and more clients connect to it than it can admit";
    throw new CudaIpcError("TIMEOUT", `${error.message}: ${found}`, { cause: error });
  } finally {
    keepAlive.release(timer);
  }
}

/**
 * Starts a hub if none listens, and connects to it. Undefined if another process is starting one,
 * or none can be reached yet: the caller retries after a pause. The socket's folder exists, or was
 * removed just now.
 * @param impatient do not wait any more for another process, which may have been stopped while it
 * was starting a hub
 * @throws HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, and as `tryConnect`
 */
export async function tryStart(
  target: HubTarget,
  greeting: Greeting,
  impatient: boolean,
): Promise<HubConnection | undefined> {
  let lock: OwnedFd | undefined;
  try {
    lock = tryLockStart(target.socketPath);
    if (lock === undefined && !impatient) return undefined;
    // Again: the last holder of the lock may have started a hub since the caller looked.
    const found = await tryConnect(target, greeting);
    if (found !== undefined) return found;
    // Loaded here: most processes find a running hub, and the import should cost them little.
    const { startHub } = await import("./start-hub.js");
    await startHub(target.socketPath, target.hubIdleMs, greeting.deadline, greeting.keepAlive);
    return await tryConnect(target, greeting);
  } catch (error) {
    if (!isFolderGone(error, target.socketPath)) throw error;
    return undefined;
  } finally {
    lock?.close();
  }
}

/** Whether this process or the new hub failed because somebody has removed the folder again. */
function isFolderGone(error: unknown, socketPath: string): boolean {
  if (error instanceof SystemError) return error.errnoName === "ENOENT" && error.call === "open";
  return hasCode(error, "HUB_UNAVAILABLE") && folderOwner(socketPath) === undefined;
}

/**
 * @throws HUB_UNAVAILABLE if the folder is mounted read-only, as in containers that start no hub
 */
function tryLockStart(socketPath: string): OwnedFd | undefined {
  try {
    return tryLockFile(`${socketPath}.start`);
  } catch (cause) {
    if (!(cause instanceof SystemError && cause.errnoName === "EROFS")) throw cause;
    const found =
      "none listens there, and its folder is read-only here, so that none can be started";
    throw new CudaIpcError(
      "HUB_UNAVAILABLE",
      `Cannot connect to a hub at ${socketPath}: ${found}`,
      { cause },
    );
  }
}

/**
 * Creates the folder of a hub that this process may start. Not in another user's folder, root's
 * included: a hub there is for several users, and one of this user would not serve them. The hub
 * itself checks the mode of an own folder.
 */
export function prepareOwnFolder(socketPath: string): void {
  const owner = folderOwner(socketPath);
  if (owner !== undefined && owner !== ownUid()) {
    const found = `none listens there, and user ${owner} owns the folder and has to start one`;
    throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot connect to a hub at ${socketPath}: ${found}`);
  }
  if (!checkCommonFolder(socketPath, new Set([ownUid()]))) prepareRuntimeFolder(socketPath);
}

/**
 * Whether a hub is about to listen, if none does: one that starts takes the lock first, and one
 * whose files were removed has the twin's address.
 */
export function isStarting(socketPath: string): boolean {
  return lockHolder(`${socketPath}.lock`) !== undefined || isTwinHeld(socketPath);
}

/** Describes a hub that holds the lock without a socket; undefined if there is none. */
export function hubWithoutSocket(socketPath: string): string | undefined {
  const holder = lockHolder(`${socketPath}.lock`);
  if (holder === undefined || existsSync(socketPath)) return undefined;
  const state = holder.pid === undefined ? undefined : processState(holder.pid);
  const found =
    `${holder.words} has the lock of a hub there, and there is no socket yet` +
    (state === undefined ? "" : `: it ${state}`);
  const end = holder.pid === undefined ? "end that process" : `end it: kill ${holder.pid}`;
  const remedy =
    `It may be starting, so try again in a moment; ${socketPath}.log may say more. ` +
    `If it never listens, ${end}. The next hub has its names.`;
  return `Cannot connect to a hub at ${socketPath}: ${found}. ${remedy}`;
}

/** How long to wait for another process to start a hub before starting one here. */
export const START_PATIENCE_MS = 3000;
