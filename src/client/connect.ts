/** Joins this user's hub, or a hub for several users. Starts one if none runs. */
import { basename, dirname } from "node:path";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError, hasCode, withCallers } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { GrowingPause } from "../base/pause.js";
import { aDeviceName } from "../gpu/option-checks.js";
import { folderOwner, hubSocketPath } from "../os/runtime-folder.js";
import { checks } from "./call-checks.js";
import { operations } from "./client-diagnostics.js";
import type { HubConnection } from "./connection/hub-connection.js";
import { HubLink } from "./connection/hub-link.js";
import { Farewell } from "./connection/hub-reply.js";
import { trustedUids } from "./connection/hub-trust.js";
import {
  type Greeting,
  type HubTarget,
  hubWithoutSocket,
  isStarting,
  prepareOwnFolder,
  START_PATIENCE_MS,
  tryConnect,
  tryStart,
} from "./connection/reach-hub.js";
import { Hub } from "./hub.js";

export interface ConnectOptions extends WaitOptions {
  /** The hub's socket. Default: `CUDA_IPC_SOCKET`, else one in the user's runtime folder. */
  readonly socket?: string | undefined;
  /** The uid of one more user whose hub is trusted. Default: `CUDA_IPC_HUB_UID`. */
  readonly hubUid?: number | undefined;
  /** Start a hub if none runs (default). Only in a folder of this user's own. */
  readonly start?: boolean | undefined;
  /** How long a hub that is started here stays without clients and objects. */
  readonly hubIdleMs?: number | undefined;
  /**
   * Look for the next hub if this one crashes, and continue there (default). A hub that is stopped
   * on purpose is not looked for.
   */
  readonly reconnect?: boolean | undefined;
  /** How long to look for the next hub. Default: 30 s. */
  readonly reconnectTimeoutMs?: number | undefined;
  /** The device for arrays that name none. Default: `CUDA_IPC_DEVICE`, else `auto`. */
  readonly device?: string | undefined;
  /** The program's name in `cuda-ipc inspect`. Default: the name of its main file. */
  readonly program?: string | undefined;
}

/** The hub's socket: the argument, else `CUDA_IPC_SOCKET`, else the user's runtime folder. */
export { hubSocketPath } from "../os/runtime-folder.js";

/**
 * Joins the hub. The connection keeps this process alive: close it, or declare it with `await
 * using`.
 * @throws HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, UNTRUSTED_PEER, PROTOCOL_MISMATCH, TIMEOUT, ABORTED;
 * INVALID_DEVICE for a misspelt device
 * @example
 * await using hub = await connect();
 */
export async function connect(options: ConnectOptions = {}): Promise<Hub> {
  checks.connect(options);
  // A misspelt device of the environment would only show at the first array.
  if (options.device === undefined && process.env.CUDA_IPC_DEVICE)
    aDeviceName("CUDA_IPC_DEVICE", process.env.CUDA_IPC_DEVICE);
  const socketPath = hubSocketPath(options.socket);
  const join = async () => new Hub(await joinHub(options), options.device);
  try {
    return await operations.connect.run({ socketPath }, join);
  } catch (error) {
    throw withCallers(error);
  }
}

/** As `connect`, for code that asks the hub itself. */
export async function joinHub(options: ConnectOptions): Promise<HubLink> {
  checks.connect(options);
  const socketPath = hubSocketPath(options.socket);
  const {
    hubIdleMs,
    start = true,
    reconnect = true,
    reconnectTimeoutMs = defaults.reconnectTimeoutMs,
  } = options;
  let absences = 0;
  const whyLate = () =>
    absences === 0
      ? `no hub listened there; ${socketPath}.log may say why`
      : `${absences} times a hub ended there before it answered; ${socketPath}.log may say why`;
  const attempt = `connect to the hub at ${socketPath}`;
  const deadline = new Deadline(attempt, options, defaults.hubStartTimeoutMs, whyLate);
  const trusted = trustedUids(options.hubUid);
  const program = (options.program ?? basename(process.argv[1] ?? "node")).slice(0, 128);
  const target = { socketPath, program, trusted, start, hubIdleMs };
  const connection = await reachOrSayWhy(target, deadline, () => {
    absences += 1;
  });
  return new HubLink(connection, target, { reconnect, reconnectTimeoutMs });
}

/** Looks at the lock, too: a hub that holds it without a socket needs more than a bare TIMEOUT. */
async function reachOrSayWhy(
  target: HubTarget,
  deadline: Deadline,
  onAbsent: () => void,
): Promise<HubConnection> {
  try {
    return await reach(target, deadline, onAbsent);
  } catch (error) {
    const found = hasCode(error, "TIMEOUT") ? hubWithoutSocket(target.socketPath) : undefined;
    if (found === undefined) throw error;
    throw new CudaIpcError("HUB_UNAVAILABLE", found, { cause: error });
  }
}

async function reach(
  target: HubTarget,
  deadline: Deadline,
  onAbsent: () => void,
): Promise<HubConnection> {
  const startedMs = performance.now();
  const pause = new GrowingPause();
  for (;;) {
    deadline.check();
    const isImpatient = performance.now() - startedMs > START_PATIENCE_MS;
    const connection = await tryReach(target, { deadline }, isImpatient);
    if (connection !== undefined) return connection;
    onAbsent();
    // Another hub was just starting or ending. In a moment it is there, or gone.
    await sleep(pause.nextMs(), deadline);
  }
}

/** @throws TIMEOUT, ABORTED */
async function sleep(milliseconds: number, deadline: Deadline): Promise<void> {
  let timer: NodeJS.Timeout | undefined;
  const over = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, milliseconds);
  });
  await deadline.race(over, () => clearTimeout(timer));
}

async function tryReach(
  target: HubTarget,
  greeting: Greeting,
  isImpatient: boolean,
): Promise<HubConnection | undefined> {
  const { socketPath, start } = target;
  try {
    const connection = await tryConnect(target, greeting);
    if (connection !== undefined) return connection;
    if (start) {
      prepareOwnFolder(socketPath);
      return await tryStart(target, greeting, isImpatient);
    }
  } catch (error) {
    // The hub was being stopped, and is gone in a moment.
    if (error instanceof Farewell) return undefined;
    throw error;
  }
  if (!isImpatient && isStarting(socketPath)) return undefined;
  const missing =
    folderOwner(socketPath) === undefined ? `, and ${dirname(socketPath)} does not exist` : "";
  const found =
    hubWithoutSocket(socketPath) ??
    `Cannot connect to a hub at ${socketPath}: none listens there${missing}`;
  throw new CudaIpcError("HUB_UNAVAILABLE", found);
}
