/**
 * Watches a process until it has really ended. Its pidfd becomes readable after its GPU channels
 * are torn down (measured: memory no longer changes then). Its sockets hang up earlier, so memory
 * is reclaimed on the pidfd.
 */
import { readFileSync } from "node:fs";
import { lastErrno, libc } from "../ffi/libc.js";
import { createBell } from "./bell.js";
import { FdWatch } from "./fd-watch.js";
import { POLLIN, pollFd, statFile } from "./file-calls.js";
import { OwnedFd } from "./owned-fd.js";
import { errnos, systemError } from "./system-error.js";

const SYS_PIDFD_OPEN = 434;
const SYS_PIDFD_SEND_SIGNAL = 424;
const SIGKILL = 9n;

export class ProcessWatch {
  readonly #pidfd: OwnedFd;
  readonly #watch: FdWatch;
  #open = true;

  /**
   * Takes over the pidfd. `onExit` is called once, from the event loop. The watch does not keep
   * this process alive.
   */
  constructor(pidfd: OwnedFd, onExit: () => void) {
    this.#pidfd = pidfd;
    this.#watch = new FdWatch(pidfd, () => {
      try {
        this.close();
      } catch (error) {
        // WHY a warning: there is no caller, and `onExit` must run in any case.
        process.emitWarning(
          `The watch of a process could not be released: ${String(error)}`,
          "CudaIpcRelease",
        );
      }
      onExit();
    });
    this.#watch.setReferenced(false);
  }

  /** True if the process has ended. */
  get exited(): boolean {
    return this.#open ? hasEnded(this.#pidfd) : true;
  }

  /** The watch keeps the pidfd. Undefined after the end. */
  get pidfd(): OwnedFd | undefined {
    return this.#open ? this.#pidfd : undefined;
  }

  close(): void {
    if (!this.#open) return;
    this.#open = false;
    this.#watch.close();
    this.#pidfd.close();
  }
}

/**
 * Opens a pidfd by pid. Returns undefined if there is no such process. The caller owns it. Prefer
 * `SeqpacketSocket.peerPidfd`, which cannot meet a reused pid.
 * @throws TOO_MANY_FDS
 */
export function openPidfd(pid: number): OwnedFd | undefined {
  const fd = libc().syscall(SYS_PIDFD_OPEN, pid, 0);
  if (fd >= 0) return new OwnedFd(fd);
  const errno = lastErrno();
  if (errno === errnos.ESRCH || errno === errnos.EINVAL) return undefined;
  throw systemError(`open process ${pid}`, "pidfd_open", errno);
}

/** Kills the process, also if it is stopped. Does nothing if it has ended. */
export function killProcess(pidfd: OwnedFd): void {
  if (libc().kernel(SYS_PIDFD_SEND_SIGNAL, BigInt(pidfd.number), SIGKILL, 0n, 0n, 0n, 0n) === 0)
    return;
  if (lastErrno() !== errnos.ESRCH) throw systemError("kill a process", "pidfd_send_signal");
}

/** The pid of this process. Undefined if it has ended or is in another PID namespace. */
export function pidOf(pidfd: OwnedFd): number | undefined {
  const text = readFileSync(`/proc/self/fdinfo/${pidfd.number}`, "utf8");
  const pid = Number(/^Pid:\s*(-?\d+)$/m.exec(text)?.[1]);
  return pid > 0 ? pid : undefined;
}

/** True if the process has ended with all its threads. */
export function hasEnded(fd: OwnedFd): boolean {
  return pollFd(fd, POLLIN, 0);
}

let knownDevice: bigint | undefined;

/**
 * The number by which the kernel tells a process from all others of this boot: the inode of its
 * pidfds. It is the same in every PID namespace and is never reused. Null before Linux 6.9, where
 * all pidfds share one inode. https://man7.org/linux/man-pages/man2/pidfd_open.2.html
 */
export function pidfdInode(pidfd: OwnedFd): string | null {
  const { dev, ino } = statFile(pidfd);
  return dev === anonymousDevice() ? null : String(ino);
}

/**
 * The file system of files without an inode of their own, such as bells. WHY asked of a bell: its
 * number is not fixed.
 */
function anonymousDevice(): bigint {
  if (knownDevice !== undefined) return knownDevice;
  const bell = createBell();
  try {
    knownDevice = statFile(bell).dev;
  } finally {
    bell.close();
  }
  return knownDevice;
}
