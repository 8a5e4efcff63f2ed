/**
 * Which process it was, for those who meet its traces later: numbers are given to other processes again, start again with the
 * machine, and count in one PID namespace alone. So an identity is the number, its namespace, the time of its start, and the boot.
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
  /** The machine's own id of its present boot. */
  readonly bootId: string;
  /** The PID namespace in which the number counts: the inode of `/proc/PID/ns/pid`. Containers have one each. */
  readonly pidNamespace: number;
}

/**
 * `alive`: it runs, here and now; `gone`: it ended; `unseen`: its number counts in another PID namespace, and whether it runs cannot
 * be told by it; `other-boot`: it was of another machine, or of this one before it was started again.
 */
export type Whereabouts = "alive" | "gone" | "unseen" | "other-boot";

let own: ProcessIdentity | undefined;
/** False if the mounted `/proc` is of another PID namespace: `unshare --pid` without `--mount-proc` leaves it so. */
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

/** The process that has this number now; undefined where none has, or one that has ended and is only not reaped yet. */
export function identityOf(pid: number): ProcessIdentity | undefined {
  const own = ownIdentity();
  const startTicks = procIsOwn ? startTicksOf(pid) : undefined;
  return startTicks === undefined ? undefined : { ...own, pid, startTicks };
}

export function whereaboutsOf({ pid, startTicks, bootId, pidNamespace }: ProcessIdentity): Whereabouts {
  const own = ownIdentity();
  if (bootId !== own.bootId) return "other-boot";
  if (pidNamespace !== own.pidNamespace || !procIsOwn) return "unseen";
  return startTicksOf(pid) === startTicks ? "alive" : "gone";
}

/** What is thrown for a handle that is opened by the number of its exporter, and comes from where that number means another process. */
export function otherNamespace(attempt: string, pid: number): CudaIpcError {
  const found = `process ${pid}, which exported it, is in another PID namespace, and a handle is opened by that number`;
  const remedy = "Share it by the hub or by share(), which send descriptors, or give both containers one PID namespace";
  return new CudaIpcError("OTHER_PID_NAMESPACE", `Cannot ${attempt}: ${found}. ${remedy}.`);
}

function findOwn(): ProcessIdentity {
  try {
    // WHY self: the mounted /proc may be that of another PID namespace, which has another process under this number.
    const { startTicks } = parseStart(readFileSync("/proc/self/stat", "utf8"));
    const bootId = readFileSync("/proc/sys/kernel/random/boot_id", "utf8").trim();
    procIsOwn = readlinkSync("/proc/self") === String(process.pid);
    return { pid: process.pid, startTicks, bootId, pidNamespace: ownNamespace() };
  } catch (cause) {
    const remedy = "Mount it, as containers have it unless they are told otherwise";
    throw new CudaIpcError("UNSUPPORTED", `Cannot identify this process: /proc cannot be read. ${remedy}.`, { cause });
  }
}

function ownNamespace(): number {
  const link = readlinkSync("/proc/self/ns/pid");
  const inode = Number(/^pid:\[(\d+)\]$/.exec(link)?.[1]);
  if (Number.isSafeInteger(inode)) return inode;
  throw new CudaIpcError("UNSUPPORTED", `Cannot find the PID namespace of this process in ${JSON.stringify(link)}`);
}

/**
 * A pidfd of exactly this process, for a ProcessWatch; undefined where it is gone or not to be seen. The caller owns it.
 * @throws TOO_MANY_FDS
 */
export function openProcess(identity: ProcessIdentity): OwnedFd | undefined {
  if (whereaboutsOf(identity) !== "alive") return undefined;
  const pidfd = openPidfd(identity.pid);
  if (pidfd === undefined) return undefined;
  try {
    // WHY again: the pidfd stays with the process that had the number then, which this shows to be the right one.
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
