/**
 * The right to listen at a path, decided by a lock file beside it, which is removed with the socket: one process at a time has it,
 * and a socket file that is there while nobody has it was left by one that died.
 */
import { lstatSync, type Stats, unlinkSync } from "node:fs";
import { CudaIpcError } from "../base/errors.js";
import { releaseAll } from "../base/scope.js";
import { tryLockFile } from "./file-lock.js";
import { isAt } from "./own-file.js";
import type { OwnedFd } from "./owned-fd.js";
import { checkSocketPath } from "./seqpacket.js";
import { fromNodeError } from "./system-error.js";

/** Far more often than others can come and go between two steps here. */
const ATTEMPTS = 100;

export class SocketClaim {
  readonly #lockPath: string;
  #lock: OwnedFd | undefined;

  private constructor(lockPath: string, lock: OwnedFd) {
    this.#lockPath = lockPath;
    this.#lock = lock;
  }

  /**
   * Claims the path and removes a socket file that a dead process left there. Undefined where another has the claim.
   * @throws SOCKET_PATH_TOO_LONG, FILE_EXISTS where a file is there that is no socket, PERMISSION_DENIED where the lock is not a plain
   * file of this user
   */
  static tryMake(socketPath: string): SocketClaim | undefined {
    const lockPath = `${checkSocketPath(socketPath)}.lock`;
    for (let attempt = 0; attempt < ATTEMPTS; attempt += 1) {
      const lock = tryLockFile(lockPath);
      if (lock === undefined) return undefined;
      const claim = new SocketClaim(lockPath, lock);
      try {
        // Another holder may have removed the file while it was opened here.
        if (isAt(lockPath, lock)) {
          removeSocket(socketPath);
          return claim;
        }
      } catch (error) {
        lock.close();
        throw error;
      }
      lock.close();
    }
    throw new CudaIpcError(
      "UNTRUSTED_PEER",
      `Cannot listen at ${socketPath}: its lock file is replaced again and again`,
    );
  }

  /** The socket's file is removed before this. */
  release(): void {
    const lock = this.#lock;
    if (lock === undefined) return;
    this.#lock = undefined;
    // WHY in this order: who opened the file before it was removed finds out by `isAt` and makes a new one.
    releaseAll([() => unlink(this.#lockPath), () => lock.close()]);
  }
}

function removeSocket(path: string): void {
  const found = look(path);
  if (found === undefined) return;
  if (!found.isSocket()) {
    throw new CudaIpcError("FILE_EXISTS", `Cannot listen at ${path}: a file that is not a socket is there`);
  }
  unlink(path);
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
