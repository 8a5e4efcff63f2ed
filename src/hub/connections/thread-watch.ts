/**
 * Notices the end of a worker thread that hung up, although its process goes on. A thread that only
 * lost its connection comes back for its session. So the hub looks at the thread itself, with
 * pauses that grow to a second.
 */

import { defaults } from "../../base/limits.js";
import { GrowingPause } from "../../base/pause.js";
import { findThread, isThreadAlive, type ThreadIdentity } from "../../os/thread-identity.js";

export class ThreadWatch {
  /**
   * Whether the hub can see the thread. If not, the thread counts as ended some time after its
   * hang-up.
   */
  readonly isSeen: boolean;
  readonly #pid: number;
  readonly #thread: ThreadIdentity;
  readonly #onGone: () => void;
  readonly #pause = new GrowingPause();
  #timer: NodeJS.Timeout | undefined;

  /**
   * @param wasSeen whether an earlier hub saw the thread; if this one does not, the thread has
   * ended
   */
  constructor(pid: number, thread: ThreadIdentity, wasSeen: boolean, onGone: () => void) {
    const tid = findThread(pid, thread);
    this.isSeen = tid !== undefined || wasSeen;
    this.#pid = pid;
    this.#thread = { ...thread, tid: tid ?? thread.tid };
    this.#onGone = onGone;
  }

  /** Call it when the thread has hung up. Calls `onGone` from the event loop once it has ended. */
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
      // Unknown, for example because this process can open no more files. It looks again later.
      return true;
    }
  }
}
