/** Lets the event loop have its turn now and then where messages come without a pause, so that a busy channel does not hold up all else. */
import { nextTurn } from "../gpu/adaptive-wait.js";

/** Looking at the clock costs about as much as a small message. */
const MESSAGES_PER_LOOK = 64;
const TURN_MS = 5;

export class FairTurns {
  #messages = 0;
  #lastTurnMs = performance.now();
  /** Whether the event loop has had its turn since the last look at the clock. */
  #hasWaited = false;

  /** Counts a message; undefined where the caller may go on at once. */
  turn(): Promise<void> | undefined {
    this.#messages += 1;
    if (this.#messages % MESSAGES_PER_LOOK !== 0) return undefined;
    const nowMs = performance.now();
    if (this.#hasWaited) this.#lastTurnMs = nowMs;
    this.#hasWaited = false;
    return nowMs - this.#lastTurnMs < TURN_MS ? undefined : this.#wait();
  }

  /** The event loop has had its turn. */
  waited(): void {
    // WHY not the time: whoever has waited is in a hurry.
    this.#hasWaited = true;
  }

  async #wait(): Promise<void> {
    await nextTurn();
    this.waited();
  }
}
