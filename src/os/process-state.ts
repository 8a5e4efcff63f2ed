/** What a process of this PID namespace is doing, for errors that say why it does not answer. */
import { readFileSync } from "node:fs";
import { identityOf } from "./process-identity.js";

/** In words that follow a name: `is stopped`. Undefined if it cannot be seen from here. */
export function processState(pid: number): string | undefined {
  try {
    // WHY first: the mounted /proc may be of another PID namespace, with another process of this
    // number.
    if (identityOf(pid) === undefined) return undefined;
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return WORDS[stat.charAt(stat.lastIndexOf(")") + 2)];
  } catch {
    // It is only said in addition to an error: without /proc, or after its end, nothing is known.
    return undefined;
  }
}

const WORDS: Readonly<Record<string, string>> = {
  T: "is stopped (by a signal or Ctrl-Z; kill -CONT lets it go on)",
  t: "is stopped by a debugger",
  D: "waits for the system",
  R: "is busy",
  S: "runs",
};
