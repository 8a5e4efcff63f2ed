/**
 * Tells when a process has really ended. A pidfd becomes readable only after the process's GPU channels are torn down
 * (measured: memory no longer changes then), while its sockets hang up earlier; so memory is reclaimed on this, not on the hang-up.
 */
import { readFileSync } from "node:fs";
import { lastErrno, libc } from "../ffi/libc.js";
import { FdWatch } from "./fd-watch.js";
import { OwnedFd } from "./owned-fd.js";
import { POLLIN, pollFd } from "./poll-fd.js";
import { errnos, systemError } from "./system-error.js";

const SYS_PIDFD_OPEN = 434;
const SYS_PIDFD_SEND_SIGNAL = 424;
const SIGKILL = 9n;

export class ProcessWatch {
  readonly #pidfd: OwnedFd;
  readonly #watch: FdWatch;
  #open = true;

  /**
   * Takes over the pidfd; `onExit` is called once, from the event loop. The watch does not keep this process from ending.
   */
  constructor(pidfd: OwnedFd, onExit: () => void) {
    this.#pidfd = pidfd;
    this.#watch = new FdWatch(pidfd, () => {
      try {
        this.close();
      } catch (error) {
        // WHY a warning: nobody is there to be thrown at, and the end of the process is to be told in any case.
        process.emitWarning(`The watch of a process could not be released: ${String(error)}`, "CudaIpcRelease");
      }
      onExit();
    });
    this.#watch.setReferenced(false);
  }

  /** Whether the process has ended, asked without waiting. */
  get exited(): boolean {
    return this.#open ? hasEnded(this.#pidfd) : true;
  }

  /** The pidfd, which stays the watch's; undefined after the end. */
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
 * A pidfd of a process by number, or undefined where there is none. The caller owns it. Prefer `SeqpacketSocket.peerPidfd`,
 * which cannot meet a reused number.
 * @throws TOO_MANY_FDS
 */
export function openPidfd(pid: number): OwnedFd | undefined {
  const fd = libc().syscall(SYS_PIDFD_OPEN, pid, 0);
  if (fd >= 0) return new OwnedFd(fd);
  const errno = lastErrno();
  if (errno === errnos.ESRCH || errno === errnos.EINVAL) return undefined;
  throw systemError(`open process ${pid}`, "pidfd_open", errno);
}

/** Kills the process of this pidfd, also if it is stopped. Does nothing if it has ended. */
export function killProcess(pidfd: OwnedFd): void {
  if (libc().kernel(SYS_PIDFD_SEND_SIGNAL, BigInt(pidfd.number), SIGKILL, 0n, 0n, 0n, 0n) === 0) return;
  if (lastErrno() !== errnos.ESRCH) throw systemError("kill a process", "pidfd_send_signal");
}

/** The number of the process of this pidfd; undefined if it has ended, or is of another PID namespace. */
export function pidOf(pidfd: OwnedFd): number | undefined {
  const text = readFileSync(`/proc/self/fdinfo/${pidfd.number}`, "utf8");
  const pid = Number(/^Pid:\s*(-?\d+)$/m.exec(text)?.[1]);
  return pid > 0 ? pid : undefined;
}

/** Whether the process of this pidfd has ended, with all of its threads. */
export function hasEnded(fd: OwnedFd): boolean {
  return pollFd(fd, POLLIN, 0);
}
