/**
 * Calls back on the event loop when a descriptor is readable or writable. The only user of koffi's poll handles, which are for
 * the main thread, and of those of thread-poll.ts.
 */
import { isMainThread } from "node:worker_threads";
import { koffi } from "../ffi/koffi.js";
import { afterPoll, awaitNoLonger, awaitPoll, standReady } from "./after-poll.js";
import type { OwnedFd } from "./owned-fd.js";
import { pollInThread, type ThreadPollHandle } from "./thread-poll.js";

type PollHandle = Pick<ThreadPollHandle, "start" | "stop" | "close" | "ref" | "unref">;

/**
 * The watches that are open, with what they watch. WHY that too: a descriptor that is collected is closed, and libuv ends the process
 * where it is to poll one that is closed.
 */
const watches = new Map<FdWatch, OwnedFd>();
let ended = false;

/**
 * Closes every watch once no more JavaScript will run.
 * WHY: while Node ends a process or a thread it runs the event loop once more, without JavaScript. koffi calls back then too for what
 * is ready, cannot, and ends the process with SIGABRT: for instance when a peer that is watched ends at the same moment.
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
  /** Whether libuv has stopped the handle. */
  #stopped = false;
  #readable = true;
  #writable = false;

  /**
   * Watches for readability from the start. The descriptor stays the caller's and is closed after this watch.
   * Readiness is level-triggered: what `onReady` leaves unread brings another call.
   */
  constructor(fd: OwnedFd, onReady: () => void) {
    this.#onReady = onReady;
    const poll = isMainThread ? koffi().node.poll : pollInThread;
    this.#handle = poll(fd.number, { readable: true, disconnect: true }, this.#hop);
    if (watches.size === 0) process.on("exit", closeAll);
    watches.set(this, fd);
    // Made by somebody else's code for the end of the process, after `closeAll` has run.
    if (ended) this.close();
  }

  /** Whether to call back for readability, and for the end of the other side, which a reader finds; it does unless told otherwise. */
  setReadable(readable: boolean): void {
    if (!this.#open || readable === this.#readable) return;
    this.#readable = readable;
    if (!this.#paused) this.#start();
  }

  /** Whether to call back for writability as well. */
  setWritable(writable: boolean): void {
    if (!this.#open || writable === this.#writable) return;
    this.#writable = writable;
    if (!this.#paused) this.#start();
  }

  /** Stops calling back until `resume`, also for what was ready already. */
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

  /** Whether this watch keeps the process from ending; it does unless told otherwise. */
  setReferenced(referenced: boolean): void {
    if (!this.#open) return;
    if (referenced) this.#handle.ref();
    else this.#handle.unref();
  }

  /** Whether somebody waits for the next call in a hurry; nobody does unless told otherwise. See `after-poll.ts` for what that costs. */
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
    this.#handle.start({ readable: this.#readable, writable: this.#writable, disconnect: this.#readable }, this.#hop);
  }

  // WHY: koffi's callback does not run promise continuations by itself (with `await` code directly in it Node 26
  // never continued); one hop through an immediate, in the same turn of the loop, makes it ordinary code.
  readonly #hop = (status?: unknown): void => {
    // WHY: libuv stops a handle for good if its descriptor has an error (EPOLLERR). A full eventfd that is rung once more has one.
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
