/**
 * Waits for a bell on the event loop. The watch stays between waits, since whoever rings does so only for one who has said that it
 * sleeps; it keeps the process from ending only while somebody waits.
 */
import type { Deadline } from "../base/deadline.js";
import { releaseAll } from "../base/scope.js";
import { silenceBell } from "../os/bell.js";
import { FdWatch } from "../os/fd-watch.js";
import type { OwnedFd } from "../os/owned-fd.js";

export class BellWatch {
  readonly #bell: OwnedFd;
  #watch: FdWatch | undefined;
  #waiting: { readonly heard: Promise<void>; readonly resolve: () => void } | undefined;
  /** Whether it was heard and rings on. */
  #rings = false;

  /** Takes over the descriptor. */
  constructor(bell: OwnedFd) {
    this.#bell = bell;
  }

  /**
   * Resolves when the bell has rung since it was silenced, or is closed. May resolve without a ring: look, and wait again.
   * @throws TIMEOUT, ABORTED
   */
  heard(deadline: Deadline): Promise<void> {
    // WHY not waited for: what it rang for since it was heard is there to be seen once it is silent.
    if (this.#rings) {
      this.#silence();
      return Promise.resolve();
    }
    this.#watch ??= new FdWatch(this.#bell, () => this.#onRung());
    this.#watch.setReferenced(true);
    this.#watch.setAwaited(true);
    this.#waiting ??= withResolver();
    const { heard } = this.#waiting;
    // WHY apart: most waits have no end, and whoever waits here is in a hurry once it is over.
    if (deadline.timeoutMs === Number.POSITIVE_INFINITY && deadline.signal === undefined) return heard;
    return deadline.race(heard, () => this.#giveUp());
  }

  close(): void {
    releaseAll([() => this.#end(), () => this.#watch?.close(), () => this.#bell.close()]);
  }

  #onRung(): void {
    // WHY not silenced where somebody waited: that one is in a hurry. While it rings the loop calls again, where `heard` is not called before.
    if (this.#end()) this.#rings = true;
    else this.#silence();
  }

  #silence(): void {
    this.#rings = false;
    this.#rest();
    silenceBell(this.#bell);
  }

  #giveUp(): void {
    this.#end();
    this.#rest();
  }

  /** Nobody waits. */
  #rest(): void {
    this.#watch?.setAwaited(false);
    this.#watch?.setReferenced(false);
  }

  /** Whether somebody waited. */
  #end(): boolean {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve();
    return waiting !== undefined;
  }
}

function withResolver(): { heard: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const heard = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { heard, resolve };
}
