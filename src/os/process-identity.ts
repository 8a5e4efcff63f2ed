/**
 * Which process it was, for those who meet its traces later: numbers are given to other processes again, and start again with
 * the machine, so an identity is the number, the time of its start, and the boot in which both hold.
 */
import { readFileSync } from "node:fs";
import { CudaIpcError } from "../base/errors.js";
import type { OwnedFd } from "./owned-fd.js";
import { hasEnded, openPidfd } from "./process-watch.js";
import { fromNodeError } from "./system-error.js";

export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from the boot to the start of the process. */
  readonly startTicks: number;
  /** The machine's own id of its present boot. */
  readonly bootId: string;
}

/** `alive`: it runs, here and now; `gone`: it ended; `other-boot`: it was of another machine, or of this one before it was started again. */
export type Whereabouts = "alive" | "gone" | "other-boot";

let knownBootId: string | undefined;
let own: ProcessIdentity | undefined;

export function ownIdentity(): ProcessIdentity {
  own ??= identityOf(process.pid);
  if (own === undefined) {
    throw new CudaIpcError("UNSUPPORTED", `Cannot find process ${process.pid} itself: /proc is of other processes`);
  }
  return own;
}

export function isOwnIdentity({ pid, startTicks, bootId }: ProcessIdentity): boolean {
  const own = ownIdentity();
  return pid === own.pid && startTicks === own.startTicks && bootId === own.bootId;
}

/** The process that has this number now; undefined where none has, or one that has ended and is only not reaped yet. */
export function identityOf(pid: number): ProcessIdentity | undefined {
  const startTicks = startTicksOf(pid);
  return startTicks === undefined ? undefined : { pid, startTicks, bootId: bootId() };
}

/** Processes of another PID namespace are seen as gone. */
export function whereaboutsOf(identity: ProcessIdentity): Whereabouts {
  if (identity.bootId !== bootId()) return "other-boot";
  return startTicksOf(identity.pid) === identity.startTicks ? "alive" : "gone";
}

/**
 * A pidfd of exactly this process, for a ProcessWatch; undefined where it is gone. The caller owns it.
 * @throws TOO_MANY_FDS
 */
export function openProcess(identity: ProcessIdentity): OwnedFd | undefined {
  if (identity.bootId !== bootId()) return undefined;
  const pidfd = openPidfd(identity.pid);
  if (pidfd === undefined) return undefined;
  try {
    // WHY after the pidfd was opened: it stays with the process that had the number then, which this shows to be the right one.
    if (whereaboutsOf(identity) === "alive") return pidfd;
  } catch (error) {
    pidfd.close();
    throw error;
  }
  pidfd.close();
  return undefined;
}

export interface ProcessStart {
  readonly startTicks: number;
  /** Whether the first thread has ended (a zombie). Others may go on, or be ending still with the work of the process on GPUs. */
  readonly isZombie: boolean;
}

/**
 * The start of a process from the text of its /proc/PID/stat: `42 (name) S 1 ...`, field 22.
 * The name is the program's own choice and may hold spaces and parentheses; nothing after it does.
 */
export function parseStart(stat: string): ProcessStart {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state] = fields;
  const startTicks = Number(fields[19]);
  if (Number.isSafeInteger(startTicks) && startTicks >= 0 && fields.length > 19) {
    return { startTicks, isZombie: state === "Z" || state === "X" };
  }
  throw new CudaIpcError("UNSUPPORTED", "Cannot find the start of a process: /proc/PID/stat is not as on Linux");
}

function startTicksOf(pid: number): number | undefined {
  if (!Number.isSafeInteger(pid) || pid < 1) return undefined;
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch (error) {
    // WHY ESRCH: the process ended between the opening of the file and the reading.
    if (error instanceof Error && "code" in error && (error.code === "ENOENT" || error.code === "ESRCH"))
      return undefined;
    throw fromNodeError(`look at process ${pid}`, error);
  }
  const { startTicks, isZombie } = parseStart(stat);
  return isZombie && hasEndedWhole(pid) ? undefined : startTicks;
}

/** WHY not by its state: what has ended and was not reaped by its parent looks the same as what lost its first thread alone. */
function hasEndedWhole(pid: number): boolean {
  const pidfd = openPidfd(pid);
  if (pidfd === undefined) return true;
  try {
    return hasEnded(pidfd);
  } finally {
    pidfd.close();
  }
}

function bootId(): string {
  if (knownBootId !== undefined) return knownBootId;
  try {
    knownBootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
  } catch (error) {
    throw fromNodeError("find the id of this boot", error);
  }
  return knownBootId;
}
