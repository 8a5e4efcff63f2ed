/**
 * Waits on the event loop until a descriptor is readable or writable. Between waits it neither
 * calls back nor keeps the process alive.
 */
import type { Deadline } from "../base/deadline.js";
import { FdWatch } from "./fd-watch.js";
import type { OwnedFd } from "./owned-fd.js";

type Side = "readable" | "writable";

export class Readiness {
  readonly #watch: FdWatch;
  readonly #waiting = new Map<Side, () => void>();

  /** The caller keeps the descriptor, and closes it after this. */
  constructor(fd: OwnedFd) {
    this.#watch = new FdWatch(fd, () => {
      for (const wake of [...this.#waiting.values()]) wake();
    });
    this.#watch.setReadable(false);
  }

  /**
   * Resolves when the descriptor may be ready, or when this is closed. One wait for each side.
   * @throws TIMEOUT, ABORTED
   */
  async until(side: Side, deadline: Deadline): Promise<void> {
    const woken = new Promise<void>((resolve) => {
      this.#waiting.set(side, resolve);
    });
    this.#set(side, true);
    try {
      await deadline.race(woken, () => {});
    } finally {
      this.#waiting.delete(side);
      this.#set(side, false);
    }
  }

  close(): void {
    this.#watch.close();
    for (const wake of [...this.#waiting.values()]) wake();
  }

  #set(side: Side, awaited: boolean): void {
    if (side === "readable") this.#watch.setReadable(awaited);
    else this.#watch.setWritable(awaited);
  }
}
