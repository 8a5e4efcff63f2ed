/**
 * Opens files by the C library instead of Node's fs. Node tracks the descriptors of each worker
 * thread, closes them with the thread, and warns if somebody else has closed one. Ours have owners.
 */
import { constants, lstatSync, readFileSync, type Stats } from "node:fs";
import { CudaIpcError, SystemError } from "../base/errors.js";
import { acquireIn } from "../base/scope.js";
import { libc } from "../ffi/libc.js";
import { statFile } from "./file-calls.js";
import { OwnedFd } from "./owned-fd.js";
import { ownUid } from "./runtime-folder.js";
import { fromNodeError, systemError } from "./system-error.js";

const O_PATH = 0o10000000;

const FLAGS = {
  read: constants.O_RDONLY,
  // Does not open the file: a FUSE file would ask its server, which may never answer.
  path: O_PATH,
  "read-write": constants.O_RDWR,
  // WHY O_NONBLOCK: a lease of the owner on the file (F_SETLEASE) would block this call for 45 s.
  "memory-read": constants.O_RDONLY | constants.O_NONBLOCK,
  "memory-read-write": constants.O_RDWR | constants.O_NONBLOCK,
  // Opening a FIFO must not wait, and a link must not lead to another file.
  // For reading, too: the hub keeps the last lines of a long log.
  log:
    constants.O_RDWR |
    constants.O_APPEND |
    constants.O_CREAT |
    constants.O_NONBLOCK |
    constants.O_NOFOLLOW,
  own: constants.O_RDWR | constants.O_CREAT | constants.O_NONBLOCK | constants.O_NOFOLLOW,
  "own-append":
    constants.O_RDWR |
    constants.O_CREAT |
    constants.O_APPEND |
    constants.O_NONBLOCK |
    constants.O_NOFOLLOW,
  "own-read": constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOFOLLOW,
} as const;

const O_CLOEXEC = 0o2000000;
const OWN_FILE_MODE = 0o600;

/**
 * Opens a file, closed on exec. The caller owns the descriptor. `log` and `own` create a missing
 * file with mode 0600.
 */
export function openFile(path: string, use: keyof typeof FLAGS, attempt = `open ${path}`): OwnedFd {
  const fd = libc().open(path, FLAGS[use] | O_CLOEXEC, OWN_FILE_MODE);
  if (fd < 0) throw systemError(attempt, "open");
  return new OwnedFd(fd);
}

/**
 * How many files this process may have open; `Infinity` if there is no limit or it cannot be read.
 * https://man7.org/linux/man-pages/man5/proc_pid_limits.5.html
 */
export function openFilesMax(): number {
  const max = Number(/^Max open files\s+(\d+)/m.exec(limitsOfProcess())?.[1]);
  return Number.isNaN(max) ? Number.POSITIVE_INFINITY : max;
}

function limitsOfProcess(): string {
  try {
    return readFileSync("/proc/self/limits", "latin1");
  } catch {
    // The first file that cannot be opened reports the limit anyway.
    return "";
  }
}

const { S_IFMT, S_IFREG, S_IFDIR, S_IFLNK, S_IFIFO, S_IFSOCK } = constants;

/**
 * Opens a file that this user's processes keep at a known path: a lock, a journal, a log. Something
 * else may lie there, and opening it must not wait (a FIFO), follow a link, or use another user's
 * file. The file is opened for reading and writing, and created (0600) if it is missing. The caller
 * owns the descriptor.
 * @throws PERMISSION_DENIED if it is not a plain file of this user
 */
export function openOwnFile(path: string, use: "own" | "own-append" = "own"): OwnedFd {
  return acquireIn((scope) => {
    const fd = scope.own(tryOpen(path, use), (fd) => fd.close());
    const { mode, uid } = statFile(fd);
    const found = strangeness(Number(mode), Number(uid));
    if (found !== undefined) throw refusal(path, found);
    // A umask such as 0777 takes bits of the owner, too. The next open would fail.
    const isUsable = (Number(mode) & OWN_FILE_MODE) === OWN_FILE_MODE;
    if (!isUsable && libc().fchmod(fd.number, OWN_FILE_MODE) < 0)
      throw systemError(`set the mode of ${path}`, "fchmod");
    return fd;
  });
}

/** True if this path still leads to this open file. */
export function isAt(path: string, fd: OwnedFd): boolean {
  const { ino, dev } = statFile(fd);
  try {
    const named = lstatSync(path, { bigint: true, throwIfNoEntry: false });
    return named?.ino === ino && named.dev === dev;
  } catch (error) {
    throw fromNodeError(`look at ${path}`, error);
  }
}

function tryOpen(path: string, use: "own" | "own-append"): OwnedFd {
  try {
    return openFile(path, use);
  } catch (error) {
    const stats = error instanceof SystemError ? look(path) : undefined;
    const found = stats === undefined ? undefined : strangeness(stats.mode, stats.uid);
    throw found === undefined ? error : refusal(path, found, error);
  }
}

function look(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch {
    // The error of the open says why it cannot be inspected.
    return undefined;
  }
}

/** Why it cannot be used; undefined for a plain file of this user. */
function strangeness(mode: number, uid: number): string | undefined {
  const kind = kinds.get(mode & S_IFMT) ?? "a device";
  if (kind !== "a file") return `it is ${kind} and not a plain file`;
  return uid === ownUid() ? undefined : `it belongs to user ${uid}`;
}

const kinds = new Map([
  [S_IFREG, "a file"],
  [S_IFDIR, "a folder"],
  [S_IFLNK, "a symbolic link"],
  [S_IFIFO, "a FIFO"],
  [S_IFSOCK, "a socket"],
]);

function refusal(path: string, found: string, cause?: unknown): CudaIpcError {
  return new CudaIpcError(
    "PERMISSION_DENIED",
    `Cannot use "${path}": ${found}. Remove it and try again.`,
    { cause },
  );
}
