/**
 * Calls back on the event loop when a descriptor is readable or writable. On the main thread it
 * uses koffi's poll handles, in worker threads those of thread-poll.ts. Nothing else uses them.
 */
import { isMainThread } from "node:worker_threads";
import { koffi } from "../ffi/koffi.js";
import { afterPoll, awaitNoLonger, awaitPoll, standReady } from "./hot/after-poll.js";
import type { OwnedFd } from "./owned-fd.js";
import { pollInThread, type ThreadPollHandle } from "./thread-poll.js";

type PollHandle = Pick<ThreadPollHandle, "start" | "stop" | "close" | "ref" | "unref">;

/**
 * The open watches and their descriptors. WHY the descriptors: a collected OwnedFd is closed, and
 * libuv ends the process if it polls a closed one.
 */
const watches = new Map<FdWatch, OwnedFd>();
let ended = false;

/**
 * Closes every watch when no more JavaScript will run.
 * WHY: at its end a process or thread runs the event loop once more without JavaScript. koffi would
 * call back for a ready descriptor, fail, and end the process with SIGABRT.
 */
function closeAll(): void {
  ended = true;
  for (const watch of watches.keys()) watch.close();
}

export class FdWatch {
  readonly #handle: PollHandle;
  readonly #onReady: () => void;
  #open = true;
  #paused = false;
  #awaited = false;
  #scheduled = false;
  /** libuv has stopped the handle. */
  #stopped = false;
  #readable = true;
  #writable = false;

  /**
   * Watches for readability from the start. The caller keeps the descriptor and closes it after
   * this watch. Readiness is level-triggered: if `onReady` leaves something unread, it is called
   * again.
   */
  constructor(fd: OwnedFd, onReady: () => void) {
    this.#onReady = onReady;
    const poll = isMainThread ? koffi().node.poll : pollInThread;
    this.#handle = poll(fd.number, { readable: true, disconnect: true }, this.#hop);
    if (watches.size === 0) process.on("exit", closeAll);
    watches.set(this, fd);
    // Another exit handler created this watch after `closeAll` has run.
    if (ended) this.close();
  }

  /** Turns callbacks for readability and for a hang-up on or off. They are on by default. */
  setReadable(readable: boolean): void {
    if (!this.#open || readable === this.#readable) return;
    this.#readable = readable;
    if (!this.#paused) this.#start();
  }

  /** Turns callbacks for writability on or off. They are off by default. */
  setWritable(writable: boolean): void {
    if (!this.#open || writable === this.#writable) return;
    this.#writable = writable;
    if (!this.#paused) this.#start();
  }

  /** Stops all callbacks until `resume`, also for a descriptor that is ready already. */
  pause(): void {
    if (!this.#open || this.#paused) return;
    this.#paused = true;
    this.#handle.stop();
  }

  resume(): void {
    if (!this.#open || !this.#paused) return;
    this.#paused = false;
    this.#start();
  }

  /** Whether this watch keeps the process alive. It does by default. */
  setReferenced(referenced: boolean): void {
    if (!this.#open) return;
    if (referenced) this.#handle.ref();
    else this.#handle.unref();
  }

  /**
   * Whether the next callback is urgent. It is not by default. See `hot/after-poll.ts` for the
   * cost.
   */
  setAwaited(awaited: boolean): void {
    if (!this.#open) return;
    if (awaited === this.#awaited) {
      if (awaited) standReady();
      return;
    }
    this.#awaited = awaited;
    if (awaited) awaitPoll();
    else awaitNoLonger();
  }

  close(): void {
    if (!this.#open) return;
    this.setAwaited(false);
    this.#open = false;
    watches.delete(this);
    if (watches.size === 0) process.off("exit", closeAll);
    this.#handle.stop();
    this.#handle.close();
  }

  get #wanted(): boolean {
    return this.#readable || this.#writable;
  }

  #start(): void {
    this.#stopped = false;
    this.#handle.stop();
    if (!this.#wanted) return;
    this.#handle.start(
      { readable: this.#readable, writable: this.#writable, disconnect: this.#readable },
      this.#hop,
    );
  }

  // WHY: promise continuations do not run inside koffi's callback (with an `await` in it Node 26
  // never continued). An immediate in the same turn of the loop makes it a normal task.
  readonly #hop = (status?: unknown): void => {
    // libuv stops a handle for good if its descriptor has an error (EPOLLERR), as a full eventfd
    // has that is rung once more.
    if (typeof status === "number" && status < 0) this.#stopped = true;
    if (this.#scheduled) return;
    this.#scheduled = true;
    afterPoll(this.#call);
  };

  readonly #call = (): void => {
    this.#scheduled = false;
    if (!this.#open || this.#paused || !this.#wanted) return;
    this.#onReady();
    if (this.#stopped && this.#open && !this.#paused) this.#start();
  };
}
