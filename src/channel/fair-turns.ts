/** Lets the event loop have its turn now and then where messages come without a pause, so that a busy channel does not hold up all else. */
import { nextTurn } from "../gpu/adaptive-wait.js";

/** Looking at the clock costs about as much as a small message. */
const MESSAGES_PER_LOOK = 64;
const TURN_MS = 5;

export class FairTurns {
  #messages = 0;
  #lastTurnMs = performance.now();

  /** Counts a message; undefined where the caller may go on at once. */
  turn(): Promise<void> | undefined {
    this.#messages += 1;
    if (this.#messages % MESSAGES_PER_LOOK !== 0 || performance.now() - this.#lastTurnMs < TURN_MS) return undefined;
    return this.#wait();
  }

  /** The event loop has had its turn. */
  waited(): void {
    this.#lastTurnMs = performance.now();
  }

  async #wait(): Promise<void> {
    await nextTurn();
    this.waited();
  }
}
