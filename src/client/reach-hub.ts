/**
 * One attempt to reach the hub: a connection to the one that listens, or a hub that is started where none does. Of many processes that
 * find none, one at a time starts it; in the end the hub's own lock decides which one serves.
 */
import { existsSync } from "node:fs";
import type { Deadline } from "../base/deadline.js";
import { CudaIpcError, hasCode, SystemError } from "../base/errors.js";
import { GrowingPause } from "../base/growing-pause.js";
import { lockHolder, tryLockFile } from "../os/file-lock.js";
import type { OwnedFd } from "../os/owned-fd.js";
import { checkCommonFolder, folderOwner, ownUid, prepareRuntimeFolder } from "../os/runtime-folder.js";
import { Farewell, HubConnection } from "./hub-connection.js";

/** Where the hub is, and how it is greeted and started there. */
export interface HubPlace {
  readonly socketPath: string;
  readonly program: string;
  /** Whose hub is trusted. */
  readonly trusted: ReadonlySet<number>;
  /** Whether a hub may be started where none listens. */
  readonly start: boolean;
  /** How long a hub that is started stays without clients and objects. */
  readonly hubIdleMs: number | undefined;
}

export interface Greeting {
  readonly deadline: Deadline;
  /** What to go on with. */
  readonly session?: number | undefined;
  /** Whether the attempt keeps this process from ending; it does unless told otherwise. */
  readonly referenced?: boolean;
}

/**
 * Undefined if no hub listens. Tries again while a hub listens that cannot take this client yet.
 * @throws Farewell if the hub is being stopped; UNTRUSTED_PEER, PROTOCOL_MISMATCH, LIMIT_EXCEEDED,
 * TIMEOUT, ABORTED
 */
export async function tryConnect(place: HubPlace, greeting: Greeting): Promise<HubConnection | undefined> {
  const { socketPath, program, trusted } = place;
  const { deadline, session, referenced = true } = greeting;
  const pause = new GrowingPause(CROWDED_PAUSE_MS_MAX);
  for (;;) {
    if (!checkCommonFolder(socketPath, trusted)) return undefined;
    try {
      return await HubConnection.open(socketPath, program, deadline, trusted, session, referenced);
    } catch (error) {
      if (error instanceof SystemError && ABSENT.has(error.errnoName)) return undefined;
      if (!isCrowded(error)) throw error;
    }
    await waitInCrowd(pause.nextMs(), deadline, referenced);
  }
}

/** No file, or nobody behind it. */
const ABSENT = new Set(["ENOENT", "ECONNREFUSED"]);

/** WHY short: others may try all the time, and the next free place in the queue goes to whoever comes first. */
const CROWDED_PAUSE_MS_MAX = 10;

/**
 * Whether a hub listened: its queue of connections was full, or it hung up before it said anything.
 * A hub that has ended hangs up as well, and is absent at the next attempt.
 */
function isCrowded(error: unknown): boolean {
  if (error instanceof SystemError) return error.errnoName === "EAGAIN";
  return hasCode(error, "HUB_GONE") && !(error instanceof Farewell);
}

async function waitInCrowd(milliseconds: number, deadline: Deadline, referenced: boolean): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
    if (!referenced) timer.unref();
  });
  try {
    await deadline.race(over, () => clearTimeout(timer));
  } catch (error) {
    if (!hasCode(error, "TIMEOUT")) throw error;
    const found = "a hub listens there, and more clients connect to it than it can admit";
    throw new CudaIpcError("TIMEOUT", `${error.message}: ${found}`, { cause: error });
  }
}

/**
 * Starts a hub where none listens and connects to it. Undefined where another process is starting one, or none can be reached yet all
 * the same: the caller tries again after a pause. The socket's folder is there.
 * @param impatient do not wait for another process any more, which may have been stopped while it was starting one
 * @throws HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, and as `tryConnect`
 */
export async function tryStart(
  place: HubPlace,
  greeting: Greeting,
  impatient: boolean,
): Promise<HubConnection | undefined> {
  const lock = tryLockStart(place.socketPath);
  if (lock === undefined && !impatient) return undefined;
  try {
    // WHY again: whoever had the lock before may have started one since the caller looked.
    const found = await tryConnect(place, greeting);
    if (found !== undefined) return found;
    // WHY loaded here: most processes find a hub running, and importing the package should cost them little.
    const { startHub } = await import("./start-hub.js");
    await startHub(place.socketPath, place.hubIdleMs, greeting.deadline, greeting.referenced);
    return await tryConnect(place, greeting);
  } finally {
    lock?.close();
  }
}

/** @throws HUB_UNAVAILABLE if the folder is mounted for reading alone, as containers may have it that are to start no hub */
function tryLockStart(socketPath: string): OwnedFd | undefined {
  try {
    return tryLockFile(`${socketPath}.start`);
  } catch (cause) {
    if (!(cause instanceof SystemError && cause.errnoName === "EROFS")) throw cause;
    const found = "none listens there, and its folder is read-only here, so that none can be started";
    throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot connect to a hub at ${socketPath}: ${found}`, { cause });
  }
}

/**
 * Makes the folder of a hub that this process may start.
 * WHY not in the folder of another user, root's included: what is there is for several users, and a hub of this one would not serve them.
 * Whether the mode of an own one suits is for the hub to say, which knows whom it serves.
 */
export function prepareOwnFolder(socketPath: string): void {
  const owner = folderOwner(socketPath);
  if (owner !== undefined && owner !== ownUid()) {
    const found = `none listens there, and it is for user ${owner}, whose folder that is, to start one`;
    throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot connect to a hub at ${socketPath}: ${found}`);
  }
  if (!checkCommonFolder(socketPath, new Set([ownUid()]))) prepareRuntimeFolder(socketPath);
}

/** What to say of a hub that has the lock and no socket; undefined if nobody has the lock, or there is a socket. */
export function hubWithoutSocket(socketPath: string): string | undefined {
  const holder = lockHolder(`${socketPath}.lock`);
  if (holder === undefined || existsSync(socketPath)) return undefined;
  const found = `${holder.words} has the lock of a hub there, and there is no socket`;
  const end = holder.pid === undefined ? "end that process" : `end it: kill -9 ${holder.pid}`;
  return `Cannot connect to a hub at ${socketPath}: ${found}. If it makes none within a second, ${end}. The next hub has its names.`;
}

/** How long one waits for another process to start a hub before it starts one itself. */
export const START_PATIENCE_MS = 3000;
