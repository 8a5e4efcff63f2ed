/** The log of a hub that was started on demand: its standard error, which is a file beside the socket that must not grow for ever. */
import { fstatSync, ftruncateSync, readSync, writeSync } from "node:fs";

const STDERR = 2;
const BYTES_MAX = 4 * 1024 * 1024;
const KEPT_BYTES = 1024 * 1024;

/** WHY a line is dropped that cannot be written: the disk that is full would end the hub, and with it what it keeps. */
export function logToStderr(line: string): void {
  try {
    dropOldLines(STDERR);
    writeSync(STDERR, `${new Date().toISOString()}  ${line}\n`);
  } catch {
    // The next line may find room.
  }
}

/** Keeps the last lines of a file that has become too long and is open for appending; none if it cannot be read. */
export function dropOldLines(fd: number): void {
  const stats = fstatSync(fd);
  if (!stats.isFile() || stats.size <= BYTES_MAX) return;
  const kept = Buffer.alloc(KEPT_BYTES);
  const length = tryRead(fd, kept, stats.size - KEPT_BYTES);
  const begin = kept.indexOf("\n") + 1;
  ftruncateSync(fd, 0);
  writeSync(fd, "(earlier lines were dropped)\n");
  writeSync(fd, kept.subarray(begin, length));
}

/** WHY no error: a log that somebody opened for writing alone would be written to no more. */
function tryRead(fd: number, into: Uint8Array, byteOffset: number): number {
  try {
    return readSync(fd, into, 0, into.byteLength, byteOffset);
  } catch {
    return 0;
  }
}
