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

  /** Takes over the descriptor. */
  constructor(bell: OwnedFd) {
    this.#bell = bell;
  }

  /**
   * Resolves when the bell has rung since it was heard last, or is closed.
   * @throws TIMEOUT, ABORTED
   */
  async heard(deadline: Deadline): Promise<void> {
    this.#watch ??= new FdWatch(this.#bell, () => this.#onRung());
    this.#watch.setReferenced(true);
    this.#waiting ??= withResolver();
    const waiting = this.#waiting;
    // WHY apart: most waits have no end, and whoever waits here is in a hurry once it is over.
    if (deadline.timeoutMs === Number.POSITIVE_INFINITY && deadline.signal === undefined) await waiting.heard;
    else await deadline.race(waiting.heard, () => this.#end());
  }

  close(): void {
    releaseAll([() => this.#end(), () => this.#watch?.close(), () => this.#bell.close()]);
  }

  #onRung(): void {
    silenceBell(this.#bell);
    this.#end();
  }

  #end(): void {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve();
    // WHY later: who waited goes on first, and most wait again.
    if (waiting !== undefined) setImmediate(() => this.#waiting ?? this.#watch?.setReferenced(false));
  }
}

function withResolver(): { heard: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const heard = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { heard, resolve };
}
