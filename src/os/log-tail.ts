/** Reads the new part of a log: the last error of a process that has just ended is in it. */
import { closeSync, openSync, readSync, statSync } from "node:fs";

const READ_MAX = 64 * 1024;

/** 0 if there is none. */
export function logSize(path: string): number {
  try {
    return statSync(path).size;
  } catch {
    return 0;
  }
}

/** The end of what was added since the log had this size. Empty if it cannot be read. */
export function addedToLog(path: string, size: number): string {
  try {
    const file = openSync(path, "r");
    try {
      const from = Math.max(size, logSize(path) - READ_MAX);
      const bytes = Buffer.alloc(READ_MAX);
      return bytes.toString("utf8", 0, readSync(file, bytes, 0, READ_MAX, from));
    } finally {
      closeSync(file);
    }
  } catch {
    return "";
  }
}
