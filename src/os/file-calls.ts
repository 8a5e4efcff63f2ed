/** The calls of Node's fs on files that are open or just made here, with SystemErrors where they fail. */
import { type BigIntStats, chmodSync, fstatSync, readSync, writeSync } from "node:fs";
import type { OwnedFd } from "./owned-fd.js";
import { fromNodeError } from "./system-error.js";

/** WHY bigint: the numbers of inodes have 64 bits. */
export function statFile(fd: OwnedFd): BigIntStats {
  const { number } = fd;
  try {
    return fstatSync(number, { bigint: true });
  } catch (error) {
    throw fromNodeError("look at a file", error);
  }
}

/** Reads as many bytes as there are and fit, from `byteOffset` of the file; 0 at its end. */
export function readFilePart(fd: OwnedFd, into: Uint8Array, byteOffset: number): number {
  const { number } = fd;
  try {
    return readSync(number, into, 0, into.byteLength, byteOffset);
  } catch (error) {
    throw fromNodeError(`read ${into.byteLength} bytes of a file`, error);
  }
}

/** Writes all of it at `byteOffset` of the file. */
export function writeFilePart(fd: OwnedFd, bytes: Uint8Array, byteOffset: number): void {
  const { number } = fd;
  try {
    for (let done = 0; done < bytes.byteLength; ) {
      done += writeSync(number, bytes, done, bytes.byteLength - done, byteOffset + done);
    }
  } catch (error) {
    throw fromNodeError(`write ${bytes.byteLength} bytes of a file`, error);
  }
}

/** From here on nobody but its owner can use the file (0600). */
export function restrictToOwner(path: string): void {
  setMode(path, 0o600, `restrict ${path} to its owner`);
}

/** From here on everybody who reaches the file can use it (0666). */
export function openToAll(path: string): void {
  setMode(path, 0o666, `let other users use ${path}`);
}

function setMode(path: string, mode: number, attempt: string): void {
  try {
    chmodSync(path, mode);
  } catch (error) {
    throw fromNodeError(attempt, error);
  }
}
