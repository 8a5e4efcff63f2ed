/**
 * Finds the hub's socket and checks its folder. A user who can write to the folder could pose as
 * the hub. The folder of one user's hub is private (0700). That of a hub for several users lets
 * others in, but only its owner writes.
 */
import { chmodSync, existsSync, lstatSync, mkdirSync, type Stats, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, isAbsolute, join, resolve } from "node:path";
import { CudaIpcError } from "../base/errors.js";
import { isMappedUser, userWords } from "./accounts.js";
import { checkSocketPath } from "./socket-layout.js";
import { fromNodeError } from "./system-error.js";

/** Root can change everything anyway, so everybody trusts it. */
export const ROOT = 0;
const OWNER_ALONE = 0o700;

/**
 * The socket's path: the argument, else `CUDA_IPC_SOCKET`, else `cuda-ipc/hub.sock` in
 * `XDG_RUNTIME_DIR` if that folder belongs to this user, else `cuda-ipc-UID/hub.sock` in the
 * folder for temporary files.
 * @throws SOCKET_PATH_TOO_LONG; UNSUPPORTED for a URL, of which a path would make folders
 */
export function hubSocketPath(
  socket: string | undefined,
  env: NodeJS.ProcessEnv = process.env,
): string {
  const chosen = chosenPath(socket, env);
  if (/^[A-Za-z][A-Za-z0-9+.-]*:\/\//.test(chosen))
    throw new CudaIpcError("UNSUPPORTED", `Cannot use the socket ${chosen}: it is a URL`, {
      remedy:
        "Set CUDA_IPC_SOCKET to the path of a socket file. Bridges reach hubs of other machines " +
        "(docs/machines.md).",
    });
  return checkSocketPath(resolve(chosen));
}

/**
 * A path for another socket of this user: in the hub's folder, or in the user's own runtime folder
 * if the hub serves several users.
 * @throws SOCKET_PATH_TOO_LONG
 */
export function runtimeSocketPath(fileName: string, env: NodeJS.ProcessEnv = process.env): string {
  const folder = dirname(hubSocketPath(undefined, env));
  const stats = look(folder);
  const isForSeveral = stats !== undefined && (stats.uid !== ownUid() || isCommon(stats));
  return checkSocketPath(join(isForSeveral ? dirname(ownPath(env)) : folder, fileName));
}

/** Others may enter it but not write to it. */
function isCommon({ mode }: Stats): boolean {
  return (mode & 0o077) !== 0 && (mode & 0o022) === 0;
}

function chosenPath(socket: string | undefined, env: NodeJS.ProcessEnv): string {
  const chosen = socket ?? env.CUDA_IPC_SOCKET;
  return chosen !== undefined && chosen !== "" ? chosen : ownPath(env);
}

function ownPath(env: NodeJS.ProcessEnv): string {
  const runtime = env.XDG_RUNTIME_DIR;
  // The specification forbids relative paths there, and a missing folder is not ours to create.
  // Another user's, as after `sudo -E` or `su`: with a folder of ours in it, its owner's programs
  // could not use theirs.
  if (runtime !== undefined && isAbsolute(runtime) && ownerOf(runtime) === ownUid())
    return join(runtime, "cuda-ipc", "hub.sock");
  return join(tmpdir(), `cuda-ipc-${ownUid()}`, "hub.sock");
}

/**
 * Creates the socket's folder if it is missing, and refuses it if others could write to it.
 * @param makes false does not create a folder; the result then says whether there is one
 */
export function prepareRuntimeFolder(socketPath: string, makes = true): boolean {
  if (checkRuntimeFolder(socketPath)) return true;
  if (!makes) return false;
  makeFolder(dirname(socketPath), socketPath, true);
  return checkRuntimeFolder(socketPath);
}

/**
 * As `prepareRuntimeFolder`, for a hub that serves other users, too.
 * @throws UNSAFE_RUNTIME_DIR
 */
export function prepareCommonFolder(socketPath: string, makes = true): boolean {
  const trusted = new Set([ROOT, ownUid()]);
  if (checkCommonFolder(socketPath, trusted)) return true;
  if (!makes) return false;
  const folder = dirname(socketPath);
  // WHY only the last one: others could not enter a folder above it that this process created.
  makeFolder(folder, socketPath, false);
  try {
    // WHY not by mkdir: the umask would remove bits.
    chmodSync(folder, 0o755);
  } catch (error) {
    throw fromNodeError(`let others into the folder ${folder}`, error);
  }
  return checkCommonFolder(socketPath, trusted);
}

/**
 * Returns true if the folder exists and is private to this user.
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
 * Returns true if the folder exists and only these users can write to it.
 * @throws UNSAFE_RUNTIME_DIR
 */
export function checkCommonFolder(socketPath: string, trustedUids: ReadonlySet<number>): boolean {
  const users = [...trustedUids].join(" or ");
  return check(socketPath, `a folder of user ${users} that nobody else can write to`, (stats) => {
    if (!trustedUids.has(stats.uid)) return `it belongs to ${userWords(stats.uid)}`;
    return (stats.mode & 0o022) === 0 ? undefined : modeWords(stats);
  });
}

/** The owner of the socket's folder; undefined if it is missing. */
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
  throw new CudaIpcError(
    "UNSAFE_RUNTIME_DIR",
    `Cannot use ${folder} for the hub's socket: ${found}; wanted ${wanted}${ledThere(folder)}`,
  );
}

/** The environment variable that led to the folder. */
function ledThere(folder: string, env: NodeJS.ProcessEnv = process.env): string {
  const { CUDA_IPC_SOCKET: socket, XDG_RUNTIME_DIR: runtime } = env;
  if (socket) return dirname(resolve(socket)) === folder ? ". CUDA_IPC_SOCKET led there." : "";
  return runtime && join(runtime, "cuda-ipc") === folder ? ". XDG_RUNTIME_DIR led there." : "";
}

function look(folder: string): Stats | undefined {
  try {
    return lstatSync(folder, { throwIfNoEntry: false });
  } catch (error) {
    throw fromNodeError(`look at the folder ${folder}`, error);
  }
}

/** Undefined if it is missing or cannot be looked at. */
function ownerOf(folder: string): number | undefined {
  try {
    return statSync(folder, { throwIfNoEntry: false })?.uid;
  } catch {
    return undefined;
  }
}

function notAFolder(stats: Stats): string | undefined {
  if (stats.isSymbolicLink()) return "it is a symbolic link";
  return stats.isDirectory() ? undefined : "it is not a folder";
}

function modeWords(stats: Stats): string {
  return `its mode is 0${(stats.mode & 0o777).toString(8)}`;
}

// WHY one by one: Node's own recursive call never ends in /proc, and reports ENOENT instead of
// EROFS on a read-only file system.
function makeFolder(folder: string, socketPath: string, recursive: boolean): void {
  if (recursive && !existsSync(dirname(folder))) makeFolder(dirname(folder), socketPath, true);
  try {
    mkdirSync(folder, { mode: OWNER_ALONE });
    // A umask such as 0777 takes bits of the owner, too.
    if ((lstatSync(folder).mode & OWNER_ALONE) !== OWNER_ALONE) chmodSync(folder, OWNER_ALONE);
  } catch (error) {
    // Another process may have created it meanwhile. The caller checks it next.
    if (recursive && error instanceof Error && "code" in error && error.code === "EEXIST") return;
    throw fromNodeError(`make the folder ${folder} for the socket ${socketPath}`, error);
  }
}

export function ownUid(): number {
  const uid = process.geteuid?.();
  if (uid === undefined)
    throw new CudaIpcError("UNSUPPORTED", "Cannot find the user of this process: not on Linux");
  if (isMappedUser(uid)) return uid;
  // Every user that this namespace does not map would look like the user of this process.
  const remedy = "Map the user of this process in the container's user namespace";
  throw new CudaIpcError(
    "UNSUPPORTED",
    `Cannot tell the user of this process from others: it is not mapped. ${remedy}.`,
  );
}
