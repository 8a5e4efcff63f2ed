/** How fast bytes come, measured over the last seconds. Pure. */

const WINDOW_MS = 3000;
/** Pieces that come faster than this count as one sample. */
const SAMPLE_MS = 50;

interface Sample {
  readonly atMs: number;
  readonly bytes: number;
}

export class RateMeter {
  /** The first is the newest one that is older than the window, if there is one. */
  #samples: Sample[];

  constructor(startMs: number) {
    this.#samples = [{ atMs: startMs, bytes: 0 }];
  }

  /** @param bytes all that have come so far */
  add(nowMs: number, bytes: number): void {
    const [before, last] = this.#samples.slice(-2);
    if (before !== undefined && last !== undefined && last.atMs - before.atMs < SAMPLE_MS)
      this.#samples.pop();
    this.#samples.push({ atMs: nowMs, bytes });
    while ((this.#samples[1]?.atMs ?? nowMs) < nowMs - WINDOW_MS) this.#samples.shift();
  }

  /** Bytes per second. 0 if none have come during the window. */
  perSecond(nowMs: number): number {
    const from = nowMs - WINDOW_MS;
    const first = this.#samples.findLast(({ atMs }) => atMs <= from) ?? this.#samples[0];
    const last = this.#samples.at(-1);
    if (first === undefined || last === undefined) return 0;
    const ms = nowMs - first.atMs;
    return ms <= 0 ? 0 : Math.round(((last.bytes - first.bytes) / ms) * 1000);
  }
}
