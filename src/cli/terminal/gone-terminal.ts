/** Ends a process whose terminal was closed, without the crash of Node.js. */
import { isatty } from "node:tty";

const STREAMS = [0, 1, 2];
const terminals = STREAMS.filter((fd) => isatty(fd));

/** Whether a terminal that this process began with was closed. SIGHUP says so, too, but later. */
export function isTerminalGone(): boolean {
  return !terminals.every((fd) => isatty(fd));
}

/**
 * Ends the process by SIGHUP if its terminal is gone, else does nothing. Call it last, when nothing
 * listens for SIGHUP.
 * WHY: at its exit Node.js sets each terminal back, and crashes with a core dump if one is gone.
 */
export function endWithoutTerminal(): void {
  if (isTerminalGone()) process.kill(process.pid, "SIGHUP");
}
