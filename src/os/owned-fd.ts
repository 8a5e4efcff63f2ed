/**
 * One file descriptor with one owner. Wrapped before anything that can throw; closed once; reported when it was forgotten.
 * In a worker thread it ends with the thread at the latest.
 */
import { closeSync, openSync } from "node:fs";
import { isMainThread } from "node:worker_threads";
import { CudaIpcError } from "../base/errors.js";
import { libc } from "../ffi/libc.js";
import { systemError } from "./system-error.js";

const F_SETFD = 2;
const FD_CLOEXEC = 1;
const F_DUPFD_CLOEXEC = 1030;
const O_CLOEXEC = 0o2000000;

let openCount = 0;

const forgotten = new FinalizationRegistry<number>((fd) => {
  process.emitWarning(`File descriptor ${fd} was never closed; it is now`, "CudaIpcLeak");
  openCount -= 1;
  closeNumber(fd);
});

export class OwnedFd {
  #fd: number;

  /** Takes over `fd`: from here on nobody else closes it. */
  constructor(fd: number) {
    if (!Number.isSafeInteger(fd) || fd < 0) {
      throw new RangeError(`A file descriptor is an integer from 0, not ${String(fd)}`);
    }
    this.#fd = isMainThread ? fd : withThread(fd);
    openCount += 1;
    forgotten.register(this, this.#fd, this);
  }

  /**
   * Takes over a descriptor that a library made, and sets close-on-exec, which nothing promises of it: a child that inherits the
   * descriptor would keep what it stands for alive for as long as it runs. Closed where that fails.
   */
  static adopt(fd: number): OwnedFd {
    const adopted = new OwnedFd(fd);
    if (libc().fcntl(adopted.number, F_SETFD, FD_CLOEXEC) >= 0) return adopted;
    const failure = systemError("set close-on-exec", "fcntl");
    adopted.close();
    throw failure;
  }

  get number(): number {
    if (this.#fd < 0) throw new CudaIpcError("CLOSED", "Cannot use a file descriptor: it was closed");
    return this.#fd;
  }

  get closed(): boolean {
    return this.#fd < 0;
  }

  /** A second descriptor of the same open file, closed on exec; the caller owns it. */
  duplicate(): OwnedFd {
    const fd = libc().fcntl(this.number, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) throw systemError("duplicate a file descriptor", "fcntl");
    return new OwnedFd(fd);
  }

  /** Hands the descriptor to somebody who closes it; this object is closed from now on. */
  take(): number {
    const fd = this.number;
    // WHY another number: Node would close this one with the thread, whosever it is by then.
    const taken = endsWithThread.has(fd) ? libc().fcntl(fd, F_DUPFD_CLOEXEC, 0) : fd;
    if (taken < 0) throw systemError("duplicate a file descriptor", "fcntl");
    this.#forget();
    if (taken !== fd) closeNumber(fd);
    return taken;
  }

  close(): void {
    if (this.#fd < 0) return;
    const fd = this.#fd;
    this.#forget();
    closeNumber(fd);
  }

  [Symbol.dispose](): void {
    this.close();
  }

  #forget(): void {
    this.#fd = -1;
    openCount -= 1;
    forgotten.unregister(this);
  }
}

/** Numbers that Node closes when this thread ends. */
const endsWithThread = new Set<number>();

/**
 * Moves a descriptor of a worker thread to a number that Node closes when the thread ends.
 * WHY: when a thread is terminated none of our code runs any more, and the process goes on. Node closes by itself
 * what was opened by `fs.openSync` in the thread, so one such number is taken for each descriptor.
 */
function withThread(fd: number): number {
  let number: number;
  try {
    number = openSync("/dev/null", "r");
  } catch {
    // WHY as it is: the table of open files is full. This descriptor works, and outlives a thread that is terminated.
    return fd;
  }
  if (libc().dup3(fd, number, O_CLOEXEC) < 0) {
    closeSync(number);
    return fd;
  }
  endsWithThread.add(number);
  libc().close(fd);
  return number;
}

function closeNumber(fd: number): void {
  if (endsWithThread.delete(fd)) {
    closeSync(fd);
    return;
  }
  // WHY not fs.closeSync: in a worker thread it warns of descriptors that Node did not open.
  if (libc().close(fd) < 0) throw systemError(`close file descriptor ${fd}`, "close");
}

/** How many descriptors are owned by this project in this process; what leak checks compare. */
export function openFdCount(): number {
  return openCount;
}
