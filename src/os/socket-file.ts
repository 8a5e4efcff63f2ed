/** The file of a listening socket, and the lock beside it that decides which process may listen. */
import { lstatSync, type Stats, unlinkSync } from "node:fs";
import { CudaIpcError } from "../base/errors.js";
import { acquireIn, releaseAll } from "../base/scope.js";
import { tryLockFile } from "./file-lock.js";
import { isAt } from "./open-file.js";
import type { OwnedFd } from "./owned-fd.js";
import { checkSocketPath } from "./socket-layout.js";
import { fromNodeError } from "./system-error.js";

/** Far more often than other processes can replace the lock between two steps. */
const ATTEMPTS = 100;

/** A socket file that this process just created. */
export class SocketFile {
  readonly #path: string;
  readonly #created: Stats | undefined;

  constructor(path: string) {
    this.#path = path;
    this.#created = look(path);
  }

  isThere(): boolean {
    const found = look(this.#path);
    return (
      found !== undefined && found.ino === this.#created?.ino && found.dev === this.#created.dev
    );
  }

  /** Removes the file, unless it is gone or another file has its path. */
  remove(): void {
    if (this.isThere()) unlink(this.#path);
  }
}

/**
 * The right to listen at a path. One process at a time holds it, by a lock file beside the socket.
 * So a socket file that nobody has claimed was left by a process that died.
 */
export class SocketClaim {
  readonly #lockPath: string;
  #lock: OwnedFd | undefined;

  private constructor(lockPath: string, lock: OwnedFd) {
    this.#lockPath = lockPath;
    this.#lock = lock;
  }

  /**
   * Claims the path and removes a stale socket file. Returns undefined if another process holds
   * the claim.
   * @throws SOCKET_PATH_TOO_LONG; FILE_EXISTS if a file that is not a socket is there;
   * PERMISSION_DENIED if the lock is not a plain file of this user
   */
  static tryMake(socketPath: string): SocketClaim | undefined {
    const lockPath = `${checkSocketPath(socketPath)}.lock`;
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const lock = tryLockFile(lockPath);
      if (lock === undefined) return undefined;
      const claim = acquireIn((scope) => {
        scope.own(lock, (lock) => lock.close());
        // The last holder may have removed the file between our open and our lock.
        if (!isAt(lockPath, lock)) return undefined;
        const claim = scope.own(new SocketClaim(lockPath, lock), (claim) => claim.release());
        removeStaleSocket(socketPath, "FILE_EXISTS");
        return claim;
      });
      if (claim !== undefined) return claim;
      lock.close();
    }
    throw new CudaIpcError(
      "UNTRUSTED_PEER",
      `Cannot listen at ${socketPath}: its lock file is replaced again and again`,
    );
  }

  /** Remove the socket file before you call this. */
  release(): void {
    const lock = this.#lock;
    if (lock === undefined) return;
    this.#lock = undefined;
    // WHY in this order: a process that opened the file before its removal learns that from `isAt`.
    releaseAll([() => unlink(this.#lockPath), () => lock.close()]);
  }
}

/**
 * Removes a socket file at which nobody listens any more. The caller knows that from a lock.
 * @throws `code` if the file is not a socket
 */
export function removeStaleSocket(
  path: string,
  code: "FILE_EXISTS" | "HUB_UNAVAILABLE" = "HUB_UNAVAILABLE",
): void {
  const found = look(path);
  if (found === undefined) return;
  if (!found.isSocket()) {
    throw new CudaIpcError(code, `Cannot listen at ${path}: a file that is not a socket is there`);
  }
  unlink(path);
}

/** Whether anything is at the path. */
export function isThere(path: string): boolean {
  return look(path) !== undefined;
}

function look(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw fromNodeError(`look at ${path}`, error);
  }
}

function unlink(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    if (error instanceof Error && "code" in error && error.code === "ENOENT") return;
    throw fromNodeError(`remove ${path}`, error);
  }
}
