/** The state of a process, by /proc. */
import { readFileSync } from "node:fs";
import { until } from "./until.js";

/** Its letter in /proc/PID/stat. Undefined if there is no such process. */
export function stateOf(pid: number): string | undefined {
  try {
    return readFileSync(`/proc/${pid}/stat`, "utf8").match(/\) (\S)/)?.[1];
  } catch {
    return undefined;
  }
}

export function isStopped(pid: number): boolean {
  return stateOf(pid) === "T";
}

/**
 * Resolves once a process stands still that stops itself. WHY: what it says before its SIGSTOP can
 * arrive before the SIGSTOP, and a SIGCONT that comes between the two is lost.
 */
export function untilStopped(pid: number): Promise<void> {
  return until(`process ${pid} has stopped itself`, () => isStopped(pid));
}
