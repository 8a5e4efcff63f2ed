/** How many messages somebody may send: a bucket of one second's worth that fills again as time goes on. */

export class MessageRate {
  readonly #perSecond: number;
  #left: number;
  #atMs = 0;

  /** @param perSecond `Infinity` for no limit */
  constructor(perSecond: number) {
    this.#perSecond = perSecond;
    this.#left = perSecond;
  }

  /** How many milliseconds too early a message at this time is. */
  waitMs(nowMs: number): number {
    if (this.#perSecond === Number.POSITIVE_INFINITY) return 0;
    this.#left = Math.min(this.#perSecond, this.#left + (Math.max(0, nowMs - this.#atMs) * this.#perSecond) / 1000);
    this.#atMs = Math.max(this.#atMs, nowMs);
    return Math.max(0, ((1 - this.#left) * 1000) / this.#perSecond);
  }

  /** Counts a message that did not come too early. */
  count(): void {
    this.#left -= 1;
  }
}
