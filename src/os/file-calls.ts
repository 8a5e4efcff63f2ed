/** Calls on open files that throw SystemErrors. */
import { type BigIntStats, chmodSync, fstatSync, read, readSync, write, writeSync } from "node:fs";
import { promisify } from "node:util";
import { libc } from "../ffi/libc.js";
import type { OwnedFd } from "./owned-fd.js";
import { fromNodeError } from "./system-error.js";

/** WHY bigint: inode numbers have 64 bits. */
export function statFile(fd: OwnedFd): BigIntStats {
  const { number } = fd;
  try {
    return fstatSync(number, { bigint: true });
  } catch (error) {
    throw fromNodeError("look at a file", error);
  }
}

/** Reads at `byteOffset` of the file. Returns the bytes read; 0 at its end. */
export function readFilePart(fd: OwnedFd, into: Uint8Array, byteOffset: number): number {
  const { number } = fd;
  try {
    return readSync(number, into, 0, into.byteLength, byteOffset);
  } catch (error) {
    throw fromNodeError(`read ${into.byteLength} bytes of a file`, error);
  }
}

const readOnPool = promisify(read);

/**
 * As `readFilePart`, on the thread pool. The caller keeps the descriptor open and the bytes unused
 * until it settles.
 */
export async function readFilePartAsync(
  fd: OwnedFd,
  into: Uint8Array,
  byteOffset: number,
): Promise<number> {
  const { number } = fd;
  try {
    return (await readOnPool(number, into, 0, into.byteLength, byteOffset)).bytesRead;
  } catch (error) {
    throw fromNodeError(`read ${into.byteLength} bytes of a file`, error);
  }
}

/** Writes all bytes at `byteOffset` of the file. */
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

const writeOnPool = promisify(write);

/**
 * As `writeFilePart`, on the thread pool. The caller keeps the descriptor open and the bytes
 * unchanged until it settles.
 */
export async function writeFilePartAsync(
  fd: OwnedFd,
  bytes: Uint8Array,
  byteOffset: number,
): Promise<void> {
  const { number } = fd;
  try {
    for (let done = 0; done < bytes.byteLength; ) {
      const rest = bytes.byteLength - done;
      done += (await writeOnPool(number, bytes, done, rest, byteOffset + done)).bytesWritten;
    }
  } catch (error) {
    throw fromNodeError(`write ${bytes.byteLength} bytes of a file`, error);
  }
}

/** Sets the mode of a file, whatever the umask. */
export function setMode(path: string, mode: number): void {
  try {
    chmodSync(path, mode);
  } catch (error) {
    throw fromNodeError(`set the mode of ${path}`, error);
  }
}

/** Events for `pollFd`. */
export const POLLIN = 1;
export const POLLOUT = 4;

/**
 * True if one of the events is there or the other side is gone. False after a signal, too.
 * @param timeoutMs 0 does not wait; -1 waits without a limit
 */
export function pollFd(fd: Pick<OwnedFd, "number">, events: number, timeoutMs: number): boolean {
  const entry = new Uint8Array(new ArrayBuffer(8));
  const view = new DataView(entry.buffer);
  view.setInt32(0, fd.number, true);
  view.setInt16(4, events, true);
  return libc().poll(entry, 1, timeoutMs) > 0;
}
