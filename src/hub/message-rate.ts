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

  /** Counts a message at this time; how many milliseconds it came too early. */
  count(nowMs: number): number {
    if (this.#perSecond === Number.POSITIVE_INFINITY) return 0;
    this.#left = Math.min(this.#perSecond, this.#left + (Math.max(0, nowMs - this.#atMs) * this.#perSecond) / 1000);
    this.#atMs = Math.max(this.#atMs, nowMs);
    this.#left -= 1;
    if (this.#left >= 0) return 0;
    const waitMs = (-this.#left * 1000) / this.#perSecond;
    // WHY: who is refused is not charged for it, or a flood would be waited for long after it has ended.
    this.#left += 1;
    return waitMs;
  }
}
