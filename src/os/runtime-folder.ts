/**
 * Where the hub's socket lives, and that nobody else could have put it there: the folder belongs to this user
 * and to this user alone (0700). Whoever can write to the folder could pose as the hub.
 */
import { existsSync, lstatSync, mkdirSync, type Stats } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { CudaIpcError } from "../base/errors.js";
import { checkSocketPath } from "./seqpacket.js";
import { fromNodeError } from "./system-error.js";

/**
 * The socket's path: the argument, else `CUDA_IPC_SOCKET`, else `cuda-ipc/hub.sock` in `XDG_RUNTIME_DIR`,
 * else `cuda-ipc-UID/hub.sock` in the folder for temporary files.
 * @throws SOCKET_PATH_TOO_LONG
 */
export function hubSocketPath(socket: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  return checkSocketPath(resolve(chosenPath(socket, env)));
}

/**
 * A path for another socket in the hub's folder.
 * @throws SOCKET_PATH_TOO_LONG
 */
export function runtimeSocketPath(fileName: string, env: NodeJS.ProcessEnv = process.env): string {
  return checkSocketPath(join(dirname(hubSocketPath(undefined, env)), fileName));
}

function chosenPath(socket: string | undefined, env: NodeJS.ProcessEnv): string {
  const chosen = socket ?? env.CUDA_IPC_SOCKET;
  if (chosen !== undefined && chosen !== "") return chosen;
  const runtime = env.XDG_RUNTIME_DIR;
  // WHY: a relative path is not valid there by its specification, and a folder that is missing is not ours to make.
  if (runtime !== undefined && isAbsolute(runtime) && existsSync(runtime)) return join(runtime, "cuda-ipc", "hub.sock");
  return join(tmpdir(), `cuda-ipc-${ownUid()}`, "hub.sock");
}

/** Makes the socket's folder where it is missing, and refuses it where others could write to it. */
export function prepareRuntimeFolder(socketPath: string): void {
  if (checkRuntimeFolder(socketPath)) return;
  const folder = dirname(socketPath);
  try {
    mkdirSync(folder, { recursive: true, mode: 0o700 });
  } catch (error) {
    throw fromNodeError(`make the folder ${folder}`, error);
  }
  checkRuntimeFolder(socketPath);
}

/**
 * @returns false where the folder does not exist
 * @throws UNSAFE_RUNTIME_DIR
 */
export function checkRuntimeFolder(socketPath: string): boolean {
  const folder = dirname(socketPath);
  let stats: Stats;
  try {
    stats = lstatSync(folder);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return false;
    throw fromNodeError(`look at the folder ${folder}`, error);
  }
  const found = unsafe(stats);
  if (found === undefined) return true;
  throw new CudaIpcError(
    "UNSAFE_RUNTIME_DIR",
    `Cannot use ${folder} for the hub's socket: ${found}; wanted a folder of user ${ownUid()} with mode 0700`,
  );
}

function unsafe(stats: Stats): string | undefined {
  if (stats.isSymbolicLink()) return "it is a symbolic link";
  if (!stats.isDirectory()) return "it is not a folder";
  if (stats.uid !== ownUid()) return `it belongs to user ${stats.uid}`;
  const mode = stats.mode & 0o777;
  if ((mode & 0o077) !== 0) return `its mode is 0${mode.toString(8)}`;
  return undefined;
}

export function ownUid(): number {
  const uid = process.geteuid?.();
  if (uid === undefined) throw new CudaIpcError("UNSUPPORTED", "Cannot find the user of this process: not on Linux");
  return uid;
}
