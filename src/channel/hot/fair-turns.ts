/**
 * Gives the event loop a turn now and then. Without it a channel that always has a message would
 * never let timers and sockets run.
 */
import { nextTurn } from "../../gpu/order/adaptive-wait.js";

/** Reading the clock costs about as much as a small message. */
const MESSAGES_PER_LOOK = 64;
const TURN_MS = 5;

export class FairTurns {
  #messages = 0;
  #lastTurnMs = performance.now();
  /** The event loop has had a turn since the last look at the clock. */
  #hasWaited = false;

  /** Counts a message. Returns undefined if the caller may go on at once. */
  turn(): Promise<void> | undefined {
    this.#messages += 1;
    if (this.#messages % MESSAGES_PER_LOOK !== 0) return undefined;
    const nowMs = performance.now();
    if (this.#hasWaited) this.#lastTurnMs = nowMs;
    this.#hasWaited = false;
    return nowMs - this.#lastTurnMs < TURN_MS ? undefined : this.#wait();
  }

  /** The event loop has had a turn. Does not read the clock, because a message just came. */
  waited(): void {
    this.#hasWaited = true;
  }

  async #wait(): Promise<void> {
    await nextTurn();
    this.waited();
  }
}
