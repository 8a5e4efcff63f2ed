/**
 * One file descriptor with one owner. Wrap it before anything can throw, and close it once. A
 * forgotten one is reported. In a worker thread it is closed with the thread at the latest.
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

  /** Takes over `fd`. */
  constructor(fd: number) {
    if (!Number.isSafeInteger(fd) || fd < 0) {
      throw new RangeError(`A file descriptor is an integer from 0, not ${String(fd)}`);
    }
    this.#fd = isMainThread ? fd : withThread(fd);
    openCount += 1;
    forgotten.register(this, this.#fd, this);
  }

  /**
   * Takes over a descriptor from a library and sets close-on-exec. Otherwise a child process could
   * inherit it and keep its memory alive. Closes it if that fails.
   */
  static adopt(fd: number): OwnedFd {
    const adopted = new OwnedFd(fd);
    if (libc().fcntl(adopted.number, F_SETFD, FD_CLOEXEC) >= 0) return adopted;
    const failure = systemError("set close-on-exec", "fcntl");
    adopted.close();
    throw failure;
  }

  get number(): number {
    if (this.#fd < 0)
      throw new CudaIpcError("CLOSED", "Cannot use a file descriptor: it was closed");
    return this.#fd;
  }

  get closed(): boolean {
    return this.#fd < 0;
  }

  /** Duplicates the descriptor, closed on exec. The caller owns the duplicate. */
  duplicate(): OwnedFd {
    const fd = libc().fcntl(this.number, F_DUPFD_CLOEXEC, 0);
    if (fd < 0) throw systemError("duplicate a file descriptor", "fcntl");
    return new OwnedFd(fd);
  }

  /** Hands the descriptor to a new owner, who closes it. This object is then closed. */
  take(): number {
    const fd = this.number;
    // WHY another number: Node closes this one with the thread, whoever owns it by then.
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
 * Moves a worker thread's descriptor to a number that Node closes with the thread.
 * WHY: none of our code runs when a thread is terminated, but the process goes on. Node closes the
 * numbers that the thread got from `fs.openSync`, so each descriptor moves to such a number.
 */
function withThread(fd: number): number {
  let number: number;
  try {
    number = openSync("/dev/null", "r");
  } catch {
    // The table of open files is full. This descriptor works, but outlives a terminated thread.
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
  // WHY not fs.closeSync: in a worker thread it warns about descriptors that Node did not open.
  if (libc().close(fd) < 0) throw systemError(`close file descriptor ${fd}`, "close");
}

/** Descriptors that this project owns in this process, for leak checks. */
export function openFdCount(): number {
  return openCount;
}
