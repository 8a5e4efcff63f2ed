/**
 * The log of a bridge on standard output. It never waits: a full disk, a stopped terminal or a
 * reader that does not read must not stop the bridge.
 */
import { fstatSync, writeSync } from "node:fs";
import { printable } from "../base/printable.js";
import { POLLOUT, pollFd } from "../os/file-calls.js";

const STANDARD_OUTPUT = 1;
/** A pipe takes up to 4096 bytes as a whole. Text of other machines may be escaped sixfold. */
const TEXT_MAX = 600;

/** Writes a line with the time. Drops a line that cannot be written at once. */
export function bridgeLog(message: string): void {
  try {
    const isFile = fstatSync(STANDARD_OUTPUT).isFile();
    if (!isFile && !pollFd({ number: STANDARD_OUTPUT }, POLLOUT, 0)) return;
    const text = printable(message.slice(0, TEXT_MAX));
    writeSync(STANDARD_OUTPUT, `${new Date().toISOString()}  ${text}\n`);
  } catch {
    // Dropped.
  }
}
