/** What wakes one end of a channel that sleeps: its bell, or the loss of its device. */
import type { Deadline } from "../base/deadline.js";
import { releaseAll } from "../base/scope.js";
import type { Device } from "../gpu/device.js";
import { silenceBell } from "../os/bell.js";
import { FdWatch } from "../os/fd-watch.js";
import type { OwnedFd } from "../os/owned-fd.js";

/**
 * Waits for a bell on the event loop. The watch stays between waits, because the other side rings
 * only for an end that sleeps. It keeps the process alive only during a wait.
 */
export class BellWatch {
  readonly #bell: OwnedFd;
  #watch: FdWatch | undefined;
  #waiting: { readonly heard: Promise<void>; readonly resolve: () => void } | undefined;
  /** It was heard and is not silenced yet. */
  #rings = false;

  /** Takes over the descriptor. */
  constructor(bell: OwnedFd) {
    this.#bell = bell;
  }

  /**
   * Resolves when the bell has rung since it was silenced, or is closed. It may resolve without a
   * ring, so check your condition and wait again.
   * @throws TIMEOUT, ABORTED
   */
  heard(deadline: Deadline): Promise<void> {
    // The news that it rang for can be seen after the bell is silent.
    if (this.#rings) {
      this.#silence();
      return Promise.resolve();
    }
    this.#watch ??= new FdWatch(this.#bell, () => this.#onRung());
    this.#watch.setReferenced(true);
    this.#watch.setAwaited(true);
    this.#waiting ??= withResolver();
    const { heard } = this.#waiting;
    // Most waits have no limit. Without `race` they wake up faster.
    if (deadline.timeoutMs === Number.POSITIVE_INFINITY && deadline.signal === undefined)
      return heard;
    return deadline.race(heard, () => this.#giveUp());
  }

  close(): void {
    releaseAll([() => this.#end(), () => this.#watch?.close(), () => this.#bell.close()]);
  }

  #onRung(): void {
    // WHY not silenced if somebody waited: that would delay the waiter. Until then the loop calls
    // again, and `heard` silences the bell before that.
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

  /** Returns true if somebody waited. */
  #end(): boolean {
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.resolve();
    return waiting !== undefined;
  }
}

/**
 * Wakes one end of a channel if its device is lost while it sleeps, because its bell may never
 * ring. Only under MPS can another process cause that. Elsewhere this process's own work fails
 * first.
 */
export class DeviceLossWatch {
  readonly close: () => void;
  #error: Error | undefined;

  constructor(device: Device, wake: () => void) {
    this.close = device.sharesContext
      ? device.onLost((error) => {
          this.#error = error;
          wake();
        })
      : () => {};
  }

  /** @throws DEVICE_LOST if the device was lost */
  check(): void {
    if (this.#error !== undefined) throw this.#error;
  }
}

function withResolver(): { heard: Promise<void>; resolve: () => void } {
  let resolve = (): void => {};
  const heard = new Promise<void>((settle) => {
    resolve = settle;
  });
  return { heard, resolve };
}
