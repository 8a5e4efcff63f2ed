/**
 * The identity of a process. Pids are reused, start again at boot, and count in one PID namespace
 * only. So an identity is the pid, its namespace, the start time and the boot.
 */
import { readFileSync, readlinkSync } from "node:fs";
import { CudaIpcError } from "../base/errors.js";
import type { OwnedFd } from "./owned-fd.js";
import { hasEnded, openPidfd } from "./process-watch.js";
import { fromNodeError } from "./system-error.js";

export interface ProcessIdentity {
  readonly pid: number;
  /** Clock ticks from the boot to the start of the process. */
  readonly startTicks: number;
  /** The machine's id of its present boot. */
  readonly bootId: string;
  /** The PID namespace of the pid: the inode of `/proc/PID/ns/pid`. Each container has its own. */
  readonly pidNamespace: number;
}

/**
 * `alive`: it runs here. `gone`: it has ended. `unseen`: it is in another PID namespace, so this
 * process cannot tell. `other-boot`: it ran on another machine or in an earlier boot.
 */
export type Whereabouts = "alive" | "gone" | "unseen" | "other-boot";

let own: ProcessIdentity | undefined;
/**
 * False if the mounted `/proc` is of another PID namespace, as after `unshare --pid` without
 * `--mount-proc`.
 */
let procIsOwn = false;

/** @throws UNSUPPORTED if `/proc` is not mounted */
export function ownIdentity(): ProcessIdentity {
  own ??= findOwn();
  return own;
}

export function isOwnIdentity({ pid, startTicks, bootId, pidNamespace }: ProcessIdentity): boolean {
  const own = ownIdentity();
  const isOwnNumber = pid === own.pid && pidNamespace === own.pidNamespace;
  return isOwnNumber && startTicks === own.startTicks && bootId === own.bootId;
}

/**
 * The process with this pid now. Undefined if there is none, or if it has ended but is not reaped.
 */
export function identityOf(pid: number): ProcessIdentity | undefined {
  const own = ownIdentity();
  const startTicks = procIsOwn ? startTicksOf(pid) : undefined;
  return startTicks === undefined ? undefined : { ...own, pid, startTicks };
}

export function whereaboutsOf({
  pid,
  startTicks,
  bootId,
  pidNamespace,
}: ProcessIdentity): Whereabouts {
  const own = ownIdentity();
  if (bootId !== own.bootId) return "other-boot";
  if (pidNamespace !== own.pidNamespace || !procIsOwn) return "unseen";
  return startTicksOf(pid) === startTicks ? "alive" : "gone";
}

/** The error for a handle that names its exporter by a pid of another PID namespace. */
export function otherNamespace(attempt: string, pid: number): CudaIpcError {
  const found =
    `process ${pid}, which exported it, is in another PID namespace, ` +
    "where its pid means nothing here";
  const remedy =
    "Share it by the hub or by share(), which send descriptors, " +
    "or give both containers one PID namespace";
  return new CudaIpcError("OTHER_PID_NAMESPACE", `Cannot ${attempt}: ${found}. ${remedy}.`);
}

function findOwn(): ProcessIdentity {
  try {
    // WHY self: the mounted /proc may be of another PID namespace, with another process of this
    // pid.
    const { startTicks } = parseStart(readFileSync("/proc/self/stat", "utf8"));
    const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    procIsOwn = readlinkSync("/proc/self") === String(process.pid);
    return { pid: process.pid, startTicks, bootId, pidNamespace: ownNamespace() };
  } catch (cause) {
    const remedy = "Mount it, as containers have it unless they are told otherwise";
    throw new CudaIpcError(
      "UNSUPPORTED",
      `Cannot identify this process: /proc cannot be read. ${remedy}.`,
      { cause },
    );
  }
}

function ownNamespace(): number {
  const link = readlinkSync("/proc/self/ns/pid");
  const inode = Number(/^pid:\[(\d+)\]$/.exec(link)?.[1]);
  if (Number.isSafeInteger(inode)) return inode;
  throw new CudaIpcError(
    "UNSUPPORTED",
    `Cannot find the PID namespace of this process in ${JSON.stringify(link)}`,
  );
}

/**
 * Opens a pidfd of exactly this process. Returns undefined if it is gone or cannot be seen. The
 * caller owns the pidfd.
 * @throws TOO_MANY_FDS
 */
export function openProcess(identity: ProcessIdentity): OwnedFd | undefined {
  if (whereaboutsOf(identity) !== "alive") return undefined;
  const pidfd = openPidfd(identity.pid);
  if (pidfd === undefined) return undefined;
  try {
    // WHY again: a pidfd stays with its process, and this check shows that it is the right one.
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
  /**
   * The first thread has ended (a zombie). Other threads may go on, or still end their GPU work.
   */
  readonly isZombie: boolean;
}

/**
 * Parses the start time from /proc/PID/stat: `42 (name) S 1 ...`, field 22. The program chooses its
 * name, which may hold spaces and parentheses. Nothing after it does.
 */
export function parseStart(stat: string): ProcessStart {
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  const [state] = fields;
  const startTicks = Number(fields[19]);
  if (Number.isSafeInteger(startTicks) && startTicks >= 0 && fields.length > 19) {
    return { startTicks, isZombie: state === "Z" || state === "X" };
  }
  throw new CudaIpcError(
    "UNSUPPORTED",
    "Cannot find the start of a process: /proc/PID/stat has an unknown form",
  );
}

function startTicksOf(pid: number): number | undefined {
  if (!Number.isSafeInteger(pid) || pid < 1) return undefined;
  let stat: string;
  try {
    stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  } catch (error) {
    // ESRCH: the process ended between the open and the read.
    if (
      error instanceof Error &&
      "code" in error &&
      (error.code === "ENOENT" || error.code === "ESRCH")
    )
      return undefined;
    throw fromNodeError(`look at process ${pid}`, error);
  }
  const { startTicks, isZombie } = parseStart(stat);
  return isZombie && hasEndedWhole(pid) ? undefined : startTicks;
}

/**
 * WHY not by its state: a process that has ended but is not reaped looks like one that lost only
 * its first thread.
 */
function hasEndedWhole(pid: number): boolean {
  const pidfd = openPidfd(pid);
  if (pidfd === undefined) return true;
  try {
    return hasEnded(pidfd);
  } finally {
    pidfd.close();
  }
}

/**
 * The state of a process, as the words after its name: `is stopped`. Undefined if this process
 * cannot see it.
 */
export function processState(pid: number): string | undefined {
  try {
    // The mounted /proc may be of another PID namespace, with another process of this pid.
    if (identityOf(pid) === undefined) return undefined;
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return WORDS[stat.charAt(stat.lastIndexOf(")") + 2)];
  } catch {
    // This is an extra of an error message. Without /proc nothing is known.
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
