/**
 * The identity of a thread: its number and its start time. Worker threads end before their process,
 * and the system reuses their numbers.
 */
import { opendirSync, readFileSync } from "node:fs";
import { isMainThread } from "node:worker_threads";
import { parseStart } from "./process-identity.js";
import { fromNodeError } from "./system-error.js";

export interface ThreadIdentity {
  /** The number as the thread itself sees it. Other PID namespaces see another number. */
  readonly tid: number;
  /** Clock ticks from the boot to the start of the thread. */
  readonly startTicks: number;
}

/** WHY a limit: a process that claims a missing thread makes this one search all its threads. */
const THREADS_MAX = 512;

/** The calling thread. Undefined for the main thread, which ends with its process. */
export function ownThread(): ThreadIdentity | undefined {
  if (isMainThread) return undefined;
  try {
    const stat = readFileSync("/proc/thread-self/stat", "utf8");
    return { tid: Number.parseInt(stat, 10), startTicks: parseStart(stat).startTicks };
  } catch (error) {
    throw fromNodeError("find the number of this thread", error);
  }
}

/**
 * The number by which this process sees a thread of the process `pid`. Returns undefined if there
 * is no such thread or this process cannot see it.
 */
export function findThread(pid: number, thread: ThreadIdentity): number | undefined {
  try {
    if (isThreadAlive(pid, thread)) return thread.tid;
    return threadsOf(pid).find((tid) => {
      return isThreadAlive(pid, { ...thread, tid }) && ownNumberOf(pid, tid) === thread.tid;
    });
  } catch {
    return undefined;
  }
}

/**
 * True if the process `pid` has this thread now. `tid` is the number that this process sees.
 * @throws SystemError if it cannot find out
 */
export function isThreadAlive(pid: number, { tid, startTicks }: ThreadIdentity): boolean {
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/task/${tid}/stat`, "utf8");
  } catch (error) {
    // ESRCH: the thread ended between the open and the read.
    const code = error instanceof Error && "code" in error ? error.code : undefined;
    if (code === "ENOENT" || code === "ESRCH") return false;
    throw fromNodeError(`look at thread ${tid} of process ${pid}`, error);
  }
  return parseStart(stat).startTicks === startTicks;
}

/** The number of a thread in its own PID namespace. */
function ownNumberOf(pid: number, tid: number): number {
  const status = readFileSync(`/proc/${pid}/task/${tid}/status`, "utf8");
  const numbers = /^NSpid:(.*)$/m.exec(status)?.[1] ?? "";
  return Number(numbers.trim().split(/\s+/).at(-1));
}

function threadsOf(pid: number): number[] {
  const folder = opendirSync(`/proc/${pid}/task`);
  try {
    const found: number[] = [];
    for (
      let entry = folder.readSync();
      entry !== null && found.length < THREADS_MAX;
      entry = folder.readSync()
    ) {
      found.push(Number(entry.name));
    }
    return found;
  } finally {
    folder.closeSync();
  }
}
