/** Joins the hub of this user, starting one where none runs, or one for several users, where it is told to. */
import { basename } from "node:path";
import { checkInteger } from "../base/bytes.js";
import { Deadline, type WaitOptions } from "../base/deadline.js";
import { CudaIpcError, hasCode, SystemError } from "../base/errors.js";
import { defaults } from "../base/limits.js";
import { checkCommonFolder, hubSocketPath } from "../os/runtime-folder.js";
import { Hub } from "./hub.js";
import { HubConnection } from "./hub-connection.js";
import { trustedUids } from "./hub-trust.js";

export interface ConnectOptions extends WaitOptions {
  /** The hub's socket; default `CUDA_IPC_SOCKET`, else one in the user's runtime folder. */
  readonly socket?: string | undefined;
  /** Another user whose hub is trusted, by number, beside this one and root; default `CUDA_IPC_HUB_UID`. */
  readonly hubUid?: number | undefined;
  /** Start a hub where none runs; true unless set. Only in a folder of this user's own. */
  readonly start?: boolean | undefined;
  /** How long a hub that is started here stays without clients and objects. */
  readonly hubIdleMs?: number | undefined;
  /** The device of arrays that name none; default `CUDA_IPC_DEVICE`, else `auto`. */
  readonly device?: string | undefined;
  /** What this program is called in `cuda-ipc inspect`; default the name of its main file. */
  readonly program?: string | undefined;
}

const RETRY_MS = 10;

/** Where `connect` looks for the hub: the argument, else `CUDA_IPC_SOCKET`, else a place in the user's runtime folder. */
export { hubSocketPath } from "../os/runtime-folder.js";

/**
 * Joins the hub. Close the result, or hold it with `await using`: it keeps this process from ending.
 * @throws HUB_UNAVAILABLE, UNSAFE_RUNTIME_DIR, UNTRUSTED_PEER, PROTOCOL_MISMATCH, TIMEOUT, ABORTED
 * @example
 * await using hub = await connect();
 */
export async function connect(options: ConnectOptions = {}): Promise<Hub> {
  if (options.hubIdleMs !== undefined) checkInteger("hubIdleMs", options.hubIdleMs, 0, 2 ** 31 - 1);
  const socketPath = hubSocketPath(options.socket);
  const deadline = new Deadline(`connect to the hub at ${socketPath}`, options, defaults.hubStartTimeoutMs);
  const trusted = trustedUids(options.hubUid);
  const program = (options.program ?? basename(process.argv[1] ?? "node")).slice(0, 128);
  for (;;) {
    deadline.check();
    const connection = await tryConnect(socketPath, program, deadline, trusted);
    if (connection !== undefined) return new Hub(connection, options.device);
    if (options.start === false) {
      throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot connect to a hub at ${socketPath}: none listens there`);
    }
    // WHY loaded here: most processes find a hub running, and importing the package should cost them little.
    const { startHub } = await import("./start-hub.js");
    await startHub(socketPath, options.hubIdleMs, deadline);
    const started = await tryConnect(socketPath, program, deadline, trusted);
    if (started !== undefined) return new Hub(started, options.device);
    // Another hub was just starting or ending: it is there, or gone, in a moment.
    await new Promise((resolve) => setTimeout(resolve, RETRY_MS));
  }
}

/** Undefined where no hub listens, or one that was just about to end. */
async function tryConnect(
  socketPath: string,
  program: string,
  deadline: Deadline,
  trusted: ReadonlySet<number>,
): Promise<HubConnection | undefined> {
  if (!checkCommonFolder(socketPath, trusted)) return undefined;
  try {
    return await HubConnection.open(socketPath, program, deadline, trusted);
  } catch (error) {
    if (error instanceof SystemError && ABSENT.has(error.errnoName)) return undefined;
    if (hasCode(error, "HUB_GONE")) return undefined;
    throw error;
  }
}

/** No file, nobody behind it, or a queue of connections that is full for the moment. */
const ABSENT = new Set(["ENOENT", "ECONNREFUSED", "EAGAIN"]);
