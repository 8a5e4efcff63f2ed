/**
 * Tells when a worker thread that hung up has ended, though its process goes on. A thread whose connection was only
 * cut comes back for its session, so the thread itself is looked at, with pauses that grow to a second.
 */
import { GrowingPause } from "../base/growing-pause.js";
import { defaults } from "../base/limits.js";
import { findThread, isThreadAlive, type ThreadIdentity } from "../os/thread-identity.js";

export class ThreadWatch {
  /** Whether the hub can see the thread. One that it cannot see is given up some time after its hang-up. */
  readonly isSeen: boolean;
  readonly #pid: number;
  readonly #thread: ThreadIdentity;
  readonly #onGone: () => void;
  readonly #pause = new GrowingPause();
  #timer: NodeJS.Timeout | undefined;

  /** @param wasSeen whether an earlier hub saw the thread, which has ended if this one does not */
  constructor(pid: number, thread: ThreadIdentity, wasSeen: boolean, onGone: () => void) {
    const tid = findThread(pid, thread);
    this.isSeen = tid !== undefined || wasSeen;
    this.#pid = pid;
    this.#thread = { ...thread, tid: tid ?? thread.tid };
    this.#onGone = onGone;
  }

  /** The thread has hung up: calls `onGone` from the event loop once it has ended. */
  hungUp(): void {
    if (this.#timer !== undefined) return;
    if (this.isSeen) this.#lookLater();
    else this.#timer = setTimeout(this.#onGone, defaults.unseenThreadMs);
  }

  close(): void {
    clearTimeout(this.#timer);
  }

  #lookLater(): void {
    this.#timer = setTimeout(() => {
      if (this.#isAlive()) this.#lookLater();
      else this.#onGone();
    }, this.#pause.nextMs());
  }

  #isAlive(): boolean {
    try {
      return isThreadAlive(this.#pid, this.#thread);
    } catch {
      // WHY: nothing is known of it, for instance because this process can open no more files. It is looked at again.
      return true;
    }
  }
}
