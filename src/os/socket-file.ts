/** The file of a listening socket: removed by the one who made it, or by the next one where its maker died. */
import { lstatSync, type Stats, unlinkSync } from "node:fs";
import { CudaIpcError } from "../base/errors.js";
import { fromNodeError } from "./system-error.js";

/** A socket file that this process just made. */
export class SocketFile {
  readonly #path: string;
  readonly #made: Stats | undefined;

  constructor(path: string) {
    this.#path = path;
    this.#made = look(path);
  }

  isThere(): boolean {
    const found = look(this.#path);
    return found !== undefined && found.ino === this.#made?.ino && found.dev === this.#made.dev;
  }

  /** Removes the file, unless it is gone already or another one is in its place. */
  remove(): void {
    if (this.isThere()) unlink(this.#path);
  }
}

/**
 * Removes a socket file that nobody listens at any more; the caller knows that from a lock.
 * @throws HUB_UNAVAILABLE where the file is no socket
 */
export function removeStaleSocket(path: string): void {
  const found = look(path);
  if (found === undefined) return;
  if (!found.isSocket()) {
    throw new CudaIpcError("HUB_UNAVAILABLE", `Cannot listen at ${path}: a file that is not a socket is there`);
  }
  unlink(path);
}

function look(path: string): Stats | undefined {
  try {
    return lstatSync(path, { throwIfNoEntry: false });
  } catch (error) {
    throw fromNodeError(`look at the socket ${path}`, error);
  }
}

function unlink(path: string): void {
  try {
    unlinkSync(path);
  } catch (error) {
    throw fromNodeError(`remove the socket ${path}`, error);
  }
}
