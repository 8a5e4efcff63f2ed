/**
 * Where the hub's socket lives, and that nobody else could have put it there: whoever can write to the folder could pose as the hub.
 * The folder of one user's hub belongs to that user alone (0700); that of a hub for several lets others in and lets nobody else write.
 */
import { chmodSync, existsSync, lstatSync, mkdirSync, type Stats } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { CudaIpcError } from "../base/errors.js";
import { checkSocketPath } from "./seqpacket.js";
import { fromNodeError } from "./system-error.js";
import { isMappedUser, userWords } from "./user-namespace.js";

/** May read and change everything anyway, so that it is trusted by everybody. */
export const ROOT = 0;

/**
 * The socket's path: the argument, else `CUDA_IPC_SOCKET`, else `cuda-ipc/hub.sock` in `XDG_RUNTIME_DIR`,
 * else `cuda-ipc-UID/hub.sock` in the folder for temporary files.
 * @throws SOCKET_PATH_TOO_LONG
 */
export function hubSocketPath(socket: string | undefined, env: NodeJS.ProcessEnv = process.env): string {
  return checkSocketPath(resolve(chosenPath(socket, env)));
}

/**
 * A path for another socket of this user: in the hub's folder, or in the user's own runtime folder where the hub's is for several users.
 * @throws SOCKET_PATH_TOO_LONG
 */
export function runtimeSocketPath(fileName: string, env: NodeJS.ProcessEnv = process.env): string {
  const folder = dirname(hubSocketPath(undefined, env));
  const stats = look(folder);
  const isForSeveral = stats !== undefined && (stats.uid !== ownUid() || isCommon(stats));
  return checkSocketPath(join(isForSeveral ? dirname(ownPath(env)) : folder, fileName));
}

/** Others may enter it, and not write to it. */
function isCommon({ mode }: Stats): boolean {
  return (mode & 0o077) !== 0 && (mode & 0o022) === 0;
}

function chosenPath(socket: string | undefined, env: NodeJS.ProcessEnv): string {
  const chosen = socket ?? env.CUDA_IPC_SOCKET;
  return chosen !== undefined && chosen !== "" ? chosen : ownPath(env);
}

function ownPath(env: NodeJS.ProcessEnv): string {
  const runtime = env.XDG_RUNTIME_DIR;
  // WHY: a relative path is not valid there by its specification, and a folder that is missing is not ours to make.
  if (runtime !== undefined && isAbsolute(runtime) && existsSync(runtime)) return join(runtime, "cuda-ipc", "hub.sock");
  return join(tmpdir(), `cuda-ipc-${ownUid()}`, "hub.sock");
}

/**
 * Makes the socket's folder where it is missing, and refuses it where others could write to it.
 * @param makes false leaves a folder missing, which the result then says
 */
export function prepareRuntimeFolder(socketPath: string, makes = true): boolean {
  if (checkRuntimeFolder(socketPath)) return true;
  if (!makes) return false;
  makeFolder(dirname(socketPath), socketPath, true);
  return checkRuntimeFolder(socketPath);
}

/**
 * The same for a hub that serves others too.
 * @throws UNSAFE_RUNTIME_DIR
 */
export function prepareCommonFolder(socketPath: string, makes = true): boolean {
  const trusted = new Set([ROOT, ownUid()]);
  if (checkCommonFolder(socketPath, trusted)) return true;
  if (!makes) return false;
  const folder = dirname(socketPath);
  // WHY only the last: a folder above it that this process made would let nobody in.
  makeFolder(folder, socketPath, false);
  try {
    // WHY not by mkdir: the umask would take from it.
    chmodSync(folder, 0o755);
  } catch (error) {
    throw fromNodeError(`let others into the folder ${folder}`, error);
  }
  return checkCommonFolder(socketPath, trusted);
}

/**
 * Whether the folder is there and is this user's alone.
 * @throws UNSAFE_RUNTIME_DIR
 */
export function checkRuntimeFolder(socketPath: string): boolean {
  const wanted = `a folder of user ${ownUid()} with mode 0700`;
  return check(socketPath, wanted, (stats) => {
    if (stats.uid !== ownUid()) return `it belongs to ${userWords(stats.uid)}`;
    return (stats.mode & 0o077) === 0 ? undefined : modeWords(stats);
  });
}

/**
 * Whether the folder is there, and only these users can have put something into it.
 * @throws UNSAFE_RUNTIME_DIR
 */
export function checkCommonFolder(socketPath: string, trustedUids: ReadonlySet<number>): boolean {
  const users = [...trustedUids].join(" or ");
  return check(socketPath, `a folder of user ${users} that nobody else can write to`, (stats) => {
    if (!trustedUids.has(stats.uid)) return `it belongs to ${userWords(stats.uid)}`;
    return (stats.mode & 0o022) === 0 ? undefined : modeWords(stats);
  });
}

/** The user to whom the socket's folder belongs; undefined where there is none. */
export function folderOwner(socketPath: string): number | undefined {
  return look(dirname(socketPath))?.uid;
}

type Judge = (stats: Stats) => string | undefined;

function check(socketPath: string, wanted: string, judge: Judge): boolean {
  const folder = dirname(socketPath);
  const stats = look(folder);
  if (stats === undefined) return false;
  const found = notAFolder(stats) ?? judge(stats);
  if (found === undefined) return true;
  throw new CudaIpcError("UNSAFE_RUNTIME_DIR", `Cannot use ${folder} for the hub's socket: ${found}; wanted ${wanted}`);
}

function look(folder: string): Stats | undefined {
  try {
    return lstatSync(folder, { throwIfNoEntry: false });
  } catch (error) {
    throw fromNodeError(`look at the folder ${folder}`, error);
  }
}

function notAFolder(stats: Stats): string | undefined {
  if (stats.isSymbolicLink()) return "it is a symbolic link";
  return stats.isDirectory() ? undefined : "it is not a folder";
}

function modeWords(stats: Stats): string {
  return `its mode is 0${(stats.mode & 0o777).toString(8)}`;
}

// WHY one by one: in /proc Node's own recursive call never ends, and on a read-only file system it
// says ENOENT where the plain one says EROFS.
function makeFolder(folder: string, socketPath: string, recursive: boolean): void {
  if (recursive && !existsSync(dirname(folder))) makeFolder(dirname(folder), socketPath, true);
  try {
    mkdirSync(folder, { mode: 0o700 });
  } catch (error) {
    // Another process may have made it meanwhile; whether it suits is looked at next.
    if (recursive && error instanceof Error && "code" in error && error.code === "EEXIST") return;
    throw fromNodeError(`make the folder ${folder} for the socket ${socketPath}`, error);
  }
}

export function ownUid(): number {
  const uid = process.geteuid?.();
  if (uid === undefined) throw new CudaIpcError("UNSUPPORTED", "Cannot find the user of this process: not on Linux");
  if (isMappedUser(uid)) return uid;
  // WHY refused: every user that this namespace does not map would seem to be the same one as this process.
  const remedy = "Map the user of this process in the container's user namespace";
  throw new CudaIpcError(
    "UNSUPPORTED",
    `Cannot tell the user of this process from others: it is not mapped. ${remedy}.`,
  );
}
